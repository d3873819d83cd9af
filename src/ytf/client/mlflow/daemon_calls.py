"""Makes calls in a thread that nobody has to wait for: to servers that may never answer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class DaemonCalls:
    """Makes calls one after the other. A call that hangs does not keep the process alive.

    The thread is there only while there are calls to make.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_running = False

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Make a call after all earlier ones; the future has its result."""
        future: Future[_T] = Future()
        with self._lock:
            self._calls.append((future, call))
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._calls:
                    self._is_running = False
                    return
                future, call = self._calls.popleft()
            try:
                future.set_result(call())
            except BaseException as exc:
                future.set_exception(exc)
