"""A terminal for end-to-end tests: a command that runs in it, and what it shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_S = 60.0


class Terminal:
    """Runs a command as the foreground of a real terminal of its own."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, rows: int, columns: int
    ) -> None:
        self._ours, theirs = os.openpty()
        self.shown = ""
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self._ours)
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": "vt100"},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._theirs = theirs

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size; Linux tells its foreground."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def expect(self, text: str) -> str:
        """Wait until it shows a text after what was expected before; returns all before it."""
        deadline = time.monotonic() + _TIMEOUT_S
        while text not in self.shown:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{text!r} is not shown: {self.shown!r}"
            if select.select([self._ours], [], [], left_s)[0]:
                with contextlib.suppress(OSError):
                    self.shown += os.read(self._ours, 65536).decode("utf-8", "replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def wait(self) -> int:
        """Return the exit code of the command; what it shows is read meanwhile."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self.shown!r}"
            self._read_more(0.05)
        while self._read_more(0.0):
            pass
        return self.process.returncode

    def _read_more(self, timeout_s: float) -> bool:
        if not select.select([self._ours], [], [], timeout_s)[0]:
            return False
        self.shown += os.read(self._ours, 65536).decode("utf-8", "replace")
        return True

    def is_raw(self) -> bool:
        """Whether keys are passed on as they are."""
        return not termios.tcgetattr(self._ours)[3] & termios.ICANON

    def is_as_before(self) -> bool:
        """Whether its modes are those that it had before the command."""
        return termios.tcgetattr(self._ours) == self.modes

    def close(self) -> None:
        """End the command, if it runs, and the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)
