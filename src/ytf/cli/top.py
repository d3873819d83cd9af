"""``ytf top``: what the tasks of a job use, again and again on a terminal, else once."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator

import msgspec

from ytf.backends.api import JobHandle
from ytf.cli import tables
from ytf.cli.job_arguments import open_job
from ytf.cli.usage_table import BY_TASK, sorted_tasks, usage_table
from ytf.client.status_text import span
from ytf.errors import YtfError
from ytf.specs.status import JobStatus, TaskState
from ytf.terminal_text import printable_line

_KEYS = {
    **dict.fromkeys("cCpP", "cpu"),
    **dict.fromkeys("mM", "memory"),
    **dict.fromkeys("dD", "disk"),
    **dict.fromkeys("nN", "network"),
    **dict.fromkeys("tT", BY_TASK),
}
_QUIT = "qQ\x04"
"""q and Ctrl-D; Ctrl-C is a signal."""
_HELP = "c CPU  m memory  d disk  n network  t task  q quit"
_LEAST_LINES = 4


def top(job: str, *, backend: str | None = None, json: bool, sort: str, interval_s: float) -> int:
    """Show what the tasks of a job use, until it ends or the user quits."""
    handle = open_job(job, backend)
    status = handle.status()
    if json:
        tables.print_json(msgspec.json.encode(_snapshot(status, sort)))
        return 0
    if sys.stdout.isatty() and not status.state.is_final:
        last = _Screen(handle, status, sort, interval_s).run()
        if last is None:
            return 0
        status = last
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    print(_headline(status))
    text = usage_table(status, sort, width)
    print(tables.coloured(text) if sys.stdout.isatty() else text, end="")
    for note in status.notes:
        print(printable_line(note))
    return 0


def _snapshot(status: JobStatus, sort: str) -> dict[str, object]:
    about = ("group", "index", "state", "attempt", "memory_mb", "vcores", "usage")
    tasks = [
        {name: getattr(task, name) for name in about} for task in sorted_tasks(status.tasks, sort)
    ]
    return {"id": status.id, "name": status.name, "state": status.state, "tasks": tasks}


def _headline(status: JobStatus) -> str:
    running = [task for task in status.tasks if task.state is TaskState.RUNNING]
    known = [task.live_usage for task in running if task.live_usage is not None]
    words = [
        status.id,
        status.name,
        status.state.value,
        span(status.started, status.finished),
    ]
    if not status.state.is_final:
        cores = sum(usage.cpu_cores for usage in known)
        words.append(f"{len(running)}/{len(status.tasks)} run, {cores:.1f} cores")
    return printable_line("  ".join(word for word in words if word))


class _Screen:
    """Draws the table again whenever there is news, the terminal's size changes or a key is hit.

    A thread asks for the status, so that keys work while a cluster does not answer.
    """

    def __init__(self, handle: JobHandle, status: JobStatus, sort: str, interval_s: float) -> None:
        self._handle = handle
        self._status = status
        self._sort = sort
        self._interval_s = interval_s
        self._trouble = ""
        self._bug: Exception | None = None
        self._news, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def run(self) -> JobStatus | None:
        """Run until the job ends, and return its last status; None if the user quits."""
        threading.Thread(target=self._ask, daemon=True).start()
        sources = [self._news]
        keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        if keys is not None:
            sources.append(keys)
        with contextlib.suppress(KeyboardInterrupt), self._terminal(keys):
            while not self._status.state.is_final:
                self._draw()
                ready, _, _ = select.select(sources, (), ())
                if self._news in ready:
                    os.read(self._news, 4096)
                if self._bug is not None:
                    raise self._bug
                if keys is not None and keys in ready and self._take_keys(keys):
                    return None
            return self._status
        return None

    def _ask(self) -> None:
        while self._bug is None and not self._status.state.is_final:
            time.sleep(self._interval_s)
            try:
                self._status = self._handle.status()
                self._trouble = ""
            except YtfError as error:
                self._trouble = str(error)
            except Exception as error:
                self._bug = error
            self._notify()

    def _notify(self, *_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b".")

    def _take_keys(self, keys: int) -> bool:
        """Do what the keys say; returns whether the user quits."""
        typed = os.read(keys, 64).decode("ascii", "replace")
        for key in typed:
            self._sort = _KEYS.get(key, self._sort)
        # Nothing at all: the terminal is gone.
        return not typed or any(key in _QUIT for key in typed)

    @contextlib.contextmanager
    def _terminal(self, keys: int | None) -> Iterator[None]:
        """Switch to the alternate screen, without echo; restore the terminal on exit."""
        before = None if keys is None else termios.tcgetattr(keys)
        resized = signal.signal(signal.SIGWINCH, self._notify)
        terminated = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            if keys is not None:
                tty.setcbreak(keys)
            _write("\x1b[?1049h\x1b[?25l")
            yield
        finally:
            _write("\x1b[?25h\x1b[?1049l")
            signal.signal(signal.SIGWINCH, resized)
            signal.signal(signal.SIGTERM, terminated)
            if keys is not None and before is not None:
                termios.tcsetattr(keys, termios.TCSADRAIN, before)

    def _draw(self) -> None:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        trouble = printable_line(self._trouble or self._status.diagnostics.partition("\n")[0])
        head = [_headline(self._status), trouble]
        rows = usage_table(self._status, self._sort, columns).splitlines()
        cut = "".join(f"{tables.shortened(row, columns)}\n" for row in rows)
        table = tables.coloured(cut).splitlines()
        room = max(_LEAST_LINES, lines - len(head) - 1)
        if len(table) > room:
            hidden = len(table) - room + 1
            table = [*table[: room - 1], f"… {hidden} more tasks"]
        shown = [*(tables.shortened(line, columns) for line in head), *table]
        foot = tables.shortened(f"sorted by {self._sort}:  {_HELP}", columns)
        body = "".join(f"{line}\x1b[K\n" for line in shown)
        _write(f"\x1b[H{body}{foot}\x1b[K\x1b[J")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
