"""``--wait``: following a job on stderr to its end, and killing it on Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ytf.backends.api import JobHandle
from ytf.cli import failures, jobs, tables
from ytf.cli.interrupts import Interrupted
from ytf.client.follow import CROWD, changes, counts, follow
from ytf.errors import YtfError
from ytf.specs.status import JobState, JobStatus, TaskStatus

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


def watch(handle: JobHandle) -> JobStatus:
    """Show progress on stderr until the end: a live table on a terminal, lines elsewhere."""
    if sys.stderr.isatty():
        return _watch_live(handle)
    known: JobStatus | None = None
    for status in follow(handle):
        for line in changes(known, status):
            print(line, file=sys.stderr, flush=True)
        known = status
    assert known is not None  # follow() yields at least once
    return known


def conclude(prog: str, final: JobStatus) -> int:
    """Say how the job ended; the exit code for it."""
    took = tables.span(final.started, final.finished)
    if final.state is JobState.SUCCEEDED:
        print(f"{prog}: job {final.id} succeeded in {took or 'no time'}", file=sys.stderr)
        return 0
    print(f"{prog}: job {final.id} ended {final.state.value}", file=sys.stderr)
    if final.diagnostics:
        print(final.diagnostics.rstrip(), file=sys.stderr)
    print(f"hint: `ytf logs {final.id}` shows what the tasks wrote", file=sys.stderr)
    return 1


def kill_on_interrupt(prog: str, handle: JobHandle, interrupt: Interrupted) -> None:
    """Kill the job, and wait until it is dead unless interrupted once more."""
    print(
        f"{prog}: {interrupt}: killing job {handle.job} (once more to leave without waiting)",
        file=sys.stderr,
    )
    try:
        handle.kill(f"{prog} got {interrupt} while it waited")
        for status in follow(handle):
            if status.state.is_final:
                print(f"{prog}: job {handle.job} is {status.state.value}", file=sys.stderr)
    except Interrupted:
        print(f"{prog}: left; see `ytf status {handle.job}`", file=sys.stderr)
    except YtfError as error:
        failures.report(prog, error)
        print(f"{prog}: the job may go on: `ytf kill {handle.job}` ends it", file=sys.stderr)


def _watch_live(handle: JobHandle) -> JobStatus:
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    known: JobStatus | None = None
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        for known in follow(handle):
            live.update(_picture(known), refresh=True)
    assert known is not None  # follow() yields at least once
    return known


def _picture(status: JobStatus) -> Group:
    from rich.console import Group
    from rich.text import Text

    head = f"job {status.id} ({status.name}): {status.state.value}"
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
