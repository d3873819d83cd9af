"""Turns Ctrl-C, SIGTERM and SIGHUP into exceptions that can be held back for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """The command shall stop. Not an ``Exception``, so that no handler swallows it by accident."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupts:
    """While entered, SIGINT and SIGTERM raise :class:`Interrupted` in the main thread.

    With ``hangup`` SIGHUP does too, unless it is ignored (nohup). Inside
    :meth:`holding` the first signal can be held back until the end of the block,
    so that the id of a job that is just being accepted is known before the job is
    killed. A second signal is raised at once.
    """

    def __init__(self, *, hangup: bool = False) -> None:
        ends = hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._signals = (*_SIGNALS, signal.SIGHUP) if ends else _SIGNALS
        self._old: dict[int, Any] = {}
        self._message: str | None = None
        self._pending: int | None = None

    def __enter__(self) -> None:
        self._old = {number: signal.signal(number, self._arrive) for number in self._signals}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        if self._message is not None and self._pending is None:
            self._pending = number
            # Not print(): the signal may have interrupted another print().
            with suppress(OSError):
                os.write(2, f"{self._message}\n".encode())
            return
        raise Interrupted(number)

    @contextmanager
    def holding(self, message: str) -> Iterator[Callable[[], None]]:
        """Yields a function; once it is called, a signal is held back until the block ends.

        A signal that is held back prints ``message``.
        """

        def hold() -> None:
            self._message = message

        try:
            yield hold
        finally:
            self._message = None
            pending, self._pending = self._pending, None
        if pending is not None:
            raise Interrupted(pending)
