"""The helper's side of what a starter and its helper process say to each other (ADR 31).

A helper is a module of ytf that a starter runs beside itself, in the container's
working directory (``ytf.starter.helper_process``). It counts against the
memory of the task: such a module imports as little as possible. It ends with
``run(work)``; ``work`` gets a :class:`StarterLink`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ytf.errors import YtfError
from ytf.starter.process_tree import signal_on_parents_death

Message = dict[str, Any]


class StarterLink:
    """The connection of a helper to its starter. Thread-safe."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._lines = open(stdin, "rb", closefd=False)  # noqa: SIM115 (open as long as the process)
        self._stdout = stdout
        self._lock = threading.Lock()
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the starter has ended")
        self.request: Message = json.loads(line)
        """What the starter asks for."""

    def tell(self, message: Message) -> None:
        """Send a message: at most 64 KiB of JSON. Raises ``BrokenPipeError`` if it is gone."""
        line = json.dumps(message).encode("ascii") + b"\n"
        with self._lock:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._stdout, rest) :]

    def messages(self) -> Iterator[Message]:
        """Yield what the starter sends after the request; waits for it. Ends with the starter."""
        for line in self._lines:
            yield json.loads(line)


def run(work: Callable[[StarterLink], None]) -> NoReturn:
    """Do the work that a starter asks for, and end this process; it never outlives the starter.

    An error that a user can do something about (a ``YtfError`` or an ``OSError``) is
    sent as ``{"error": text}``; the exit code is 1 then. Any other exception is a bug:
    its traceback goes to stderr, and the exit code is 70.
    """
    code = _run(work)
    sys.stderr.flush()
    # Skips the interpreter's shutdown because of hdfs-native: see ytf.cli.entry.
    os._exit(code)


def _run(work: Callable[[StarterLink], None]) -> int:
    parent = os.getppid()
    signal_on_parents_death(signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    # What libraries print is no message.
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        link = StarterLink(0, stdout)
    except EOFError:
        return 1
    try:
        work(link)
    except BrokenPipeError:
        return 1
    except (YtfError, OSError) as exc:
        hint = exc.hint if isinstance(exc, YtfError) else None
        link.tell({"error": f"{exc}; {hint}" if hint else str(exc)})
        return 1
    except BaseException:
        traceback.print_exc()
        return 70
    return 0
