"""``--wait``: following a job on stderr to its end, and killing it on Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ytf.backends.api import JobHandle
from ytf.cli import failures, jobs, tables
from ytf.cli.interrupts import Interrupted
from ytf.cli.streams import say
from ytf.client.follow import CROWD, Setbacks, changes, counts, describe_task, follow, waits
from ytf.errors import OutcomeUnknownError, UnreachableError, YtfError
from ytf.specs.names import task_id
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus

if TYPE_CHECKING:
    from rich.console import Group


def wait_for_end(prog: str, handle: JobHandle) -> int:
    """Follow the job; 0 only if it succeeded.

    An interrupt kills the job and says so; a second one leaves at once.
    """
    try:
        final = watch(handle)
    except Interrupted as interrupt:
        kill_on_interrupt(prog, handle, interrupt)
        return interrupt.exit_code
    return conclude(prog, final)


def say_why(prog: str, handle: JobHandle) -> None:
    """Say why a job that was just submitted does not start, should that be known already."""
    try:
        now = handle.status()
    except YtfError as error:
        # It is submitted all the same.
        say(f"{prog}: how the job is cannot be seen: {error}")
        return
    if now.state is JobState.SUBMITTED and now.diagnostics:
        say(f"{prog}: {now.diagnostics}")


def watch(handle: JobHandle) -> JobStatus:
    """Show progress on stderr until the end: a live table on a terminal, lines elsewhere.

    Returns when nothing of the job is left but its record and logs.
    """
    final = _watch_live(handle) if sys.stderr.isatty() else _watch_plainly(handle)
    try:
        return handle.wait(final)
    except (UnreachableError, OutcomeUnknownError):
        return final  # how it ended is known; what it may have left is swept later


def conclude(prog: str, final: JobStatus) -> int:
    """Say how the job ended; the exit code for it."""
    took = tables.span(final.started, final.finished)
    if final.state is JobState.SUCCEEDED:
        say(f"{prog}: job {final.id} succeeded in {took or 'no time'}")
        say(f"{prog}: `ytf logs {final.id}` shows what the tasks wrote")
        if any(task.state in (TaskState.FAILED, TaskState.LOST) for task in final.tasks):
            say(f"{prog}: {final.diagnostics.rstrip()}")
        return 0
    say(f"{prog}: job {final.id} ended {final.state.value}")
    if final.diagnostics:
        say(final.diagnostics.rstrip())
    say(f"hint: `ytf logs {final.id}` shows what the tasks wrote")
    return 1


def kill_on_interrupt(prog: str, handle: JobHandle, interrupt: Interrupted) -> None:
    """Kill the job, and wait until it is dead unless interrupted once more."""
    say(f"{prog}: {interrupt}: killing job {handle.job} (once more to leave without waiting)")
    try:
        handle.kill(f"{prog} got {interrupt} while it waited")
        for status in follow(handle, tell=lambda text: say(f"{prog}: {text}")):
            if status.state.is_final:
                say(f"{prog}: job {handle.job} is {status.state.value}")
    except Interrupted:
        say(f"{prog}: left; see `ytf status {handle.job}`")
    except YtfError as error:
        failures.report(prog, error)
        say(f"{prog}: the job may go on: `ytf kill {handle.job}` ends it")


def _watch_plainly(handle: JobHandle) -> JobStatus:
    setbacks = Setbacks(handle)
    known: JobStatus | None = None
    for status in follow(handle, tell=say):
        for line in changes(known, status, setbacks.between(known, status)):
            say(line)
        known = status
    assert known is not None  # follow() yields at least once
    return known


def _watch_live(handle: JobHandle) -> JobStatus:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    setbacks = Setbacks(handle)
    known: JobStatus | None = None
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        for status in follow(handle, tell=lambda text: console.print(text, markup=False)):
            why = setbacks.between(known, status)
            for task in status.tasks:
                reason = why.get(task_id(task.group, task.index))
                if reason:
                    # Above the table, where it stays.
                    console.print(describe_task(task, reason), markup=False)
            live.update(_picture(status), refresh=True)
            known = status
    assert known is not None  # follow() yields at least once
    return known


def _picture(status: JobStatus) -> Group:
    from rich.console import Group
    from rich.text import Text

    head = f"job {status.id} ({status.name}): {status.state.value}"
    if status.diagnostics and waits(status):
        head += f"\n{status.diagnostics}"
    if status.tensorboard_url:
        head += f"\nTensorBoard: {status.tensorboard_url}"
    return Group(Text(head), tables.rich_table(jobs.TASK_HEADERS, _rows(status)))


def _rows(status: JobStatus) -> list[tuple[str, ...]]:
    by_group: dict[str, list[TaskStatus]] = {}
    for task in status.tasks:
        by_group.setdefault(task.group, []).append(task)
    rows: list[tuple[str, ...]] = []
    for group, tasks in by_group.items():
        if len(tasks) > CROWD:
            rows.append((f"{group} × {len(tasks)}", counts(tasks), "", "", ""))
        else:
            rows.extend(jobs.task_row(task) for task in tasks)
    return rows
