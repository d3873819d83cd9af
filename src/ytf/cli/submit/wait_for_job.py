"""``--wait``: follows a job on stderr to its end, and kills it on Ctrl-C."""

from __future__ import annotations

import sys
import threading

from ytf import backends
from ytf.backends.api import JobHandle
from ytf.cli import output
from ytf.cli.interrupts import Interrupted
from ytf.cli.logs import colour_of, has_colours, render
from ytf.cli.output import say, say_output
from ytf.client.follow import follow, follow_changes, settle
from ytf.client.progress.lines import LineDisplay
from ytf.client.progress.reporter import TICK_S, Display
from ytf.client.status_text import span
from ytf.errors import YtfError
from ytf.specs.ids import JobId, TaskId
from ytf.specs.status import JobState, JobStatus, TaskState

_LAST_LINES_S = 60.0
"""How long the last log lines may come after the job's end: YARN collects logs of ended jobs."""


def wait_for_end(prog: str, handle: JobHandle, *, logs: list[TaskId] | None = None) -> int:
    """Follow the job and return the exit code: 0 only if the job succeeded.

    ``logs``: also show what these tasks write. An interrupt kills the job. A
    second interrupt leaves at once.
    """
    lines = None if logs is None else _LogLines(prog, handle.job, logs)
    try:
        final = watch(handle, lines)
    except Interrupted as interrupt:
        kill_on_interrupt(prog, handle, interrupt)
        return interrupt.exit_code
    return conclude(prog, final)


def watch(handle: JobHandle, lines: _LogLines | None = None) -> JobStatus:
    """Show progress on stderr until the end: a live table on a terminal, otherwise lines.

    With log lines there is no table, which would be torn apart by them. Returns
    when only the record and the logs of the job are left.
    """
    if lines is not None:
        lines.start()
        final = _watch(handle, LineDisplay(say))
        lines.join()
    elif sys.stderr.isatty():
        from ytf.client.progress.terminal import TerminalDisplay

        final = _watch(handle, TerminalDisplay())
    else:
        final = _watch(handle, LineDisplay(say))
    return settle(handle, final)


def conclude(prog: str, final: JobStatus) -> int:
    """Say how the job ended; returns the exit code."""
    took = span(final.started, final.finished)
    if final.state is JobState.SUCCEEDED:
        say(f"{prog}: job {final.id} succeeded in {took or 'no time'}")
        say(f"{prog}: `ytf logs {final.id}` shows what the tasks wrote")
        if any(task.state in (TaskState.FAILED, TaskState.LOST) for task in final.tasks):
            say(f"{prog}: {final.diagnostics.rstrip()}")
        else:
            for note in final.notes:
                say(note)
        return 0
    say(f"{prog}: job {final.id} ended {final.state.value}")
    if final.diagnostics:
        say(final.diagnostics.rstrip())
    say(f"hint: `ytf logs {final.id}` shows what the tasks wrote")
    return 1


def kill_on_interrupt(prog: str, handle: JobHandle, interrupt: Interrupted) -> None:
    """Kill the job, and wait for its end unless interrupted again."""
    say(f"{prog}: {interrupt}: killing job {handle.job} (interrupt again to leave at once)")
    try:
        handle.kill(f"{prog} got {interrupt} while it waited")
        for status in follow(handle, notify=lambda text: say(f"{prog}: {text}")):
            if status.state.is_final:
                say(f"{prog}: job {handle.job} is {status.state.value}")
    except Interrupted:
        say(f"{prog}: left; see `ytf status {handle.job}`")
    except YtfError as error:
        output.report_error(prog, error)
        say(f"{prog}: the job may go on: `ytf kill {handle.job}` ends it")


def _watch(handle: JobHandle, display: Display) -> JobStatus:
    known: JobStatus | None = None
    tick_s = TICK_S if display.is_redrawn else None
    try:
        for change in follow_changes(handle, notify=display.notice, tick_s=tick_s):
            display.update(change)
            known = change.now
    finally:
        display.close()
    assert known is not None  # follow_changes() yields at least once
    return known


class _LogLines:
    """Prints the log lines of a job on stderr, in a thread of its own."""

    def __init__(self, prog: str, job: JobId, tasks: list[TaskId]) -> None:
        self._prog = prog
        self._job = job
        self._tasks = tasks
        # A daemon: when the user leaves, or the wait fails, nobody waits for the lines.
        self._thread = threading.Thread(target=self._print, name="logs", daemon=True)

    def start(self) -> None:
        """Begin to print."""
        self._thread.start()

    def join(self) -> None:
        """Wait until all lines are printed, which a cluster may delay after the job's end."""
        self._thread.join(_LAST_LINES_S)
        if self._thread.is_alive():
            say(f"{self._prog}: not all lines were shown: `ytf logs {self._job}` shows them")

    def _print(self) -> None:
        colours = has_colours(sys.stderr)
        places = {task: number for number, task in enumerate(self._tasks)}

        def notify(text: str) -> None:
            say(f"{self._prog}: {text}")

        try:
            # A handle serves one thread.
            handle = backends.open_job(self._job)
            for line in handle.logs(self._tasks, follow=True, notify=notify):
                code = colour_of(places.get(line.task, 0)) if colours else None
                say_output(render(line, code))
        except YtfError as error:
            notify(f"no more lines are shown: {error}")
