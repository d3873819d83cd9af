"""The results of a job's functions, by task: what they returned, or why one did not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ytf.backends.api import JobHandle
from ytf.client.follow import ATTEMPT_END_EVENTS
from ytf.client.job import Job
from ytf.client.status_text import describe_exit
from ytf.errors import NotFoundError, OutcomeUnknownError, RunFailed, UnreachableError
from ytf.functions.results import TaskResults
from ytf.specs.ids import TaskId, task_id
from ytf.specs.job import TENSORBOARD
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus
from ytf.terminal_text import printable


def read_results(handle: JobHandle, final: JobStatus) -> list[object]:
    """Return what the functions of an ended job returned, in the order of tasks and processes.

    In a job that has succeeded although tasks failed (``on_failure="ignore"``), the place of
    each of these has its ``RunFailed``. Otherwise raises ``RunFailed`` for the first failure.
    Raises ``NotFoundError`` if the job ran no function.
    """
    tasks = {task_id(each.group, each.index): each for each in final.tasks}
    tasks = {task: each for task, each in tasks.items() if each.group != TENSORBOARD}
    try:
        files, folder = handle.results()
    except FileNotFoundError as exc:
        raise NotFoundError(
            f"job {final.id} has no results: it ran no function, or they were removed"
        ) from exc
    results = {
        task: TaskResults(files, f"{folder}/{each.group}-{each.index}")
        for task, each in tasks.items()
    }
    if final.state is not JobState.SUCCEEDED:
        raise _first_failure(handle, final, tasks, results)
    values: list[object] = []
    for task, result in results.items():
        values.extend(_values(tasks[task], result))
    return values


def first_values(job: Job) -> dict[TaskId, object]:
    """Return what the first process of each task returned that has, of an ended job.

    Raises ``RunFailed`` for the first failure of one that has not succeeded.
    """
    status = job.status()
    if status.state is not JobState.SUCCEEDED:
        job.results()
    files, folder = job._handle.results()
    found: dict[TaskId, object] = {}
    for task in status.tasks:
        results = TaskResults(files, f"{folder}/{task.group}-{task.index}")
        if results.has_value(0):
            found[task_id(task.group, task.index)] = results.value(0)
    return found


def _values(task: TaskStatus, results: TaskResults) -> Iterator[object]:
    if task.state is not TaskState.SUCCEEDED:
        yield _failure(task, results)
        return
    processes = results.processes
    if not processes:
        raise _failure(task, results)
    for process in processes:
        if not results.has_value(process):
            raise _failure(task, results)
        yield results.value(process)


def _first_failure(
    handle: JobHandle,
    final: JobStatus,
    tasks: dict[TaskId, TaskStatus],
    results: dict[TaskId, TaskResults],
) -> RunFailed:
    """The error of the task that failed first: later ones may only have missed it."""
    for task in (*_order_of_ends(handle), *tasks):
        if task in tasks and results[task].failure() is not None:
            return _failure(tasks[task], results[task])
    diagnostics = printable(final.diagnostics.strip())
    return RunFailed(
        f"job {final.id} ended {final.state.value}" + (f": {diagnostics}" if diagnostics else ""),
        hint=f"`ytf logs {final.id}` shows what the tasks wrote",
    )


def _order_of_ends(handle: JobHandle) -> Iterable[TaskId]:
    try:
        events = handle.events()
    except (UnreachableError, OutcomeUnknownError):
        return []
    return [TaskId(each.task) for each in events if each.task and each.event in ATTEMPT_END_EVENTS]


def _failure(task: TaskStatus, results: TaskResults) -> RunFailed:
    name = f"{task.group}:{task.index}"
    where = f" on {task.node or task.host}" if task.node or task.host else ""
    found = results.failure()
    if found is None:
        how = "its process ended before the function returned"
        if task.state is not TaskState.SUCCEEDED:
            how = describe_exit(task) or task.state.value
        return RunFailed(
            f"{name}{where} left no result: {printable(how)}",
            task=name,
            node=task.node or task.host,
        )
    text = printable(found.traceback)
    error = RunFailed(
        f"{name}{where} raised {found.type_name}: {printable(found.message)}\n\n"
        f"What {name} wrote of it:\n{text}",
        task=name,
        node=task.node or task.host,
        remote_traceback=text,
    )
    error.__cause__ = found.exception
    return error
