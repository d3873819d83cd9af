"""Ctrl-C, SIGTERM and SIGHUP as exceptions that arrive where we can act on them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Somebody wants us to stop. Not an ``Exception``: nobody may swallow it by accident."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupts:
    """While entered, SIGINT and SIGTERM raise :class:`Interrupted` in the main thread.

    With ``hangup`` the end of the terminal does, too, unless it is ignored (nohup).
    Inside :meth:`holding` the first one can be made to wait for the end of the
    block, so that a job that is just being accepted is known before it is
    killed; a second one is raised at once.
    """

    def __init__(self, *, hangup: bool = False) -> None:
        ends = hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._signals = (*_SIGNALS, signal.SIGHUP) if ends else _SIGNALS
        self._old: dict[int, Any] = {}
        self._remark: str | None = None
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
        if self._remark is not None and self._pending is None:
            self._pending = number
            # Not print: it may be in the midst of one that we are called.
            with suppress(OSError):
                os.write(2, f"{self._remark}\n".encode())
            return
        raise Interrupted(number)

    @contextmanager
    def holding(self, remark: str) -> Iterator[Callable[[], None]]:
        """Gives what is to be called once the rest of the block had better be finished.

        Who interrupts from then on reads the remark, and is heard when the block ends.
        """

        def hold() -> None:
            self._remark = remark

        try:
            yield hold
        finally:
            self._remark = None
            pending, self._pending = self._pending, None
        if pending is not None:
            raise Interrupted(pending)
