"""Keeps what ended attempts used, and finds groups that requested far more than they used.

What programs use *now* is not part of the machine's state. Only what is known
at the end of an attempt comes with an event, so that it is in the job's record.
"""

from __future__ import annotations

from collections.abc import Iterator

from ytf.machine.diagnostics import join_names
from ytf.machine.state import MachineState, Task
from ytf.specs.ids import group_of, index_of
from ytf.specs.job import JobSpec
from ytf.specs.status import FinalStatus
from ytf.specs.usage import TaskUsage

LEAST_RUN_S = 300.0
"""A task that ran for a shorter time may not have shown yet what it needs."""
TOO_MUCH = 4
"""A request of at least this many times the peak usage gets a note."""
_LEAST_WASTE_MB = 1024
_LEAST_WASTE_VCORES = 3
_ROOM = 1.1
_STEP_MB = 256
_MB = 1024 * 1024
_MOST_NAMED = 3


def keep_usage(task: Task, usage: TaskUsage | None) -> None:
    """Keep what an attempt of a task used, with the highest peaks of all attempts."""
    if usage is None:
        return
    before = task.usage
    if before is None or usage.is_newer_than(before):
        task.usage = usage.as_ended().with_peaks_of(before)
    else:
        task.usage = before.with_peaks_of(usage)


def over_asking_notes(spec: JobSpec, state: MachineState) -> Iterator[str]:
    """A sentence for each group whose tasks asked for at least four times what they used.

    Only after the end, and only of tasks that ran long enough. A job that
    failed has other trouble, and may have failed before it used much.
    """
    if not state.finished or state.final is FinalStatus.FAILED:
        return
    alike: dict[tuple[str, int, int], list[Task]] = {}
    for task in state.tasks.values():
        group = group_of(task.id)
        if task.dropped or group not in spec.groups:
            continue
        asked = spec.resources(task.id)
        alike.setdefault((group, asked.memory_mb, asked.vcores), []).append(task)
    for (group, memory_mb, vcores), tasks in alike.items():
        used = [task.usage for task in tasks if task.usage is not None]
        if len(used) < len(tasks) or max(each.elapsed_s for each in used) < LEAST_RUN_S:
            continue
        is_whole = sum(name == group for name, _, _ in alike) == 1
        names = group if is_whole else join_names([task.id for task in tasks])
        peak_mb = -(-max(each.peak_memory_bytes for each in used) // _MB)
        enough_mb = -(-int(peak_mb * _ROOM) // _STEP_MB) * _STEP_MB
        if memory_mb >= TOO_MUCH * peak_mb and memory_mb - enough_mb >= _LEAST_WASTE_MB:
            yield (
                f"{names} asked for {memory_mb} MB and used at most {peak_mb} MB: "
                f"{_options('-m', group, tasks, enough_mb, is_whole)} would do"
            )
        cores = max(each.peak_cpu_cores for each in used)
        enough = max(1, -(-int(cores * 10) // 10))
        if vcores >= TOO_MUCH * cores and vcores - enough >= _LEAST_WASTE_VCORES:
            yield (
                f"{names} asked for {vcores} vcores and used at most {cores:.1f} cores: "
                f"{_options('-c', group, tasks, enough, is_whole)} would do"
            )


def _options(option: str, group: str, tasks: list[Task], amount: int, is_whole: bool) -> str:
    if is_whole:
        return f"{option} {group}:{amount}"
    shown = [f"{option} '{group}[{index_of(task.id)}]:{amount}'" for task in tasks[:_MOST_NAMED]]
    return " ".join(shown if len(tasks) <= _MOST_NAMED else [*shown, "…"])
