"""Events and commands of the job machine as users read them in ``ytf events``.

Each has a kind (:class:`~ytf.specs.event_kinds.EventKind`) for programs and a
sentence for people. Names of classes and deadlines of the machine do not appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ytf.errors import InternalError
from ytf.machine import deadlines, diagnostics
from ytf.machine.commands import (
    AnyCommand,
    CancelRequest,
    FinishJob,
    LaunchStarter,
    PublishClusterSpec,
    ReleaseContainer,
    RequestContainer,
    RunAttempt,
    StopTask,
)
from ytf.machine.events import (
    AnyEvent,
    BackendGone,
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    DeadlinePassed,
    JobBecameIdle,
    JobIdleEnded,
    KillRequested,
    LaunchFailed,
    MasterStarted,
    MessageNoted,
    NodeLost,
    OutputLost,
    RequestRefused,
    ShellRequested,
    StarterLost,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.machine.state import request_number, requesting_task
from ytf.specs.event_kinds import EventKind
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.status import JobEvent

if TYPE_CHECKING:
    from typing_extensions import Never

_Description = tuple[EventKind, TaskId | None, str]
"""The kind of an event, the task it is about, and its sentence."""

_CAUSES = {
    Cause.EXITED: "",
    Cause.RELEASED: "released by the master",
    Cause.MEMORY: "it used more memory than it had asked for",
    Cause.LOGS: "it wrote more logs than its node allows",
    Cause.PREEMPTED: "preempted",
    Cause.NODE_LOST: "its node was lost",
    Cause.DISK_FAILED: "its node's disks failed",
    Cause.EXPIRED: "not launched in time",
    Cause.REVOKED: "taken back by the cluster",
    Cause.NOT_KEPT: "not kept when the master died",
}

_DEADLINES = {
    deadlines.START: "The time for the start of the job is over",
    deadlines.ALLOCATION: "The time for the allocation of containers is over",
    deadlines.RENDEZVOUS: "The time for all tasks to get ready is over",
    deadlines.JOB: "The time limit of the job is over",
    deadlines.AFTER_CHIEF: "The time for tasks to end after the chief's success is over",
    deadlines.EVALUATION: "The time for the last evaluation is over",
    deadlines.TENSORBOARD_STAY: "The time for a look at TensorBoard is over",
    deadlines.RESTART: "The pause before the restart of the job is over",
    deadlines.STOP: "The time for all tasks to stop is over",
    deadlines.RELEASE: "The time for the backend to end all containers is over",
}


_OUTPUT_LOST = "the disk of its logs is full, and lines of its output may be missing"


def describe_event(event: AnyEvent, at: float, tasks: Mapping[ContainerId, TaskId]) -> JobEvent:
    """An event as users read it. ``tasks`` has the task of each container."""
    return _job_event(at, _describe_event(event, at, tasks))


def describe_command(command: AnyCommand, at: float) -> JobEvent | None:
    """A command as users read it; None for those whose effect another event shows."""
    described = _describe_command(command)
    return None if described is None else _job_event(at, described)


def _job_event(at: float, described: _Description) -> JobEvent:
    kind, task, text = described
    return JobEvent(at=at, event=kind.value, task=task, text=text)


def _describe_event(
    event: AnyEvent, at: float, tasks: Mapping[ContainerId, TaskId]
) -> _Description:
    match event:
        case MasterStarted():
            return EventKind.MASTER_STARTED, None, f"Master attempt {event.attempt} started"
        case ContainersRecovered():
            text = f"{_count(len(event.containers), 'container')} kept running without a master"
            return EventKind.CONTAINERS_RECOVERED, None, text
        case ContainerAllocated():
            task = tasks.get(event.container)
            got = f"{task} got container" if task else "The master releases the surplus container"
            text = f"{got} {event.container} on {event.node}"
            return EventKind.CONTAINER_ALLOCATED, task, text
        case RequestRefused():
            task = requesting_task(event.request)
            text = f"{task} can get no container: {event.reason}"
            return EventKind.REQUEST_REFUSED, task, text
        case LaunchFailed():
            task = tasks.get(event.container)
            text = f"{_starter(task)} was not launched in {event.container}: {event.reason}"
            return EventKind.LAUNCH_FAILED, task, text
        case ContainerCompleted():
            return _container_completed(event, tasks.get(event.container))
        case NodeLost():
            return EventKind.NODE_LOST, None, f"Node {event.node} was lost, with all its containers"
        case MessageNoted():
            return EventKind.NOTE, None, event.text
        case BackendGone():
            return EventKind.BACKEND_GONE, None, f"All containers are lost: {event.reason}"
        case StarterRegistered():
            where = f"{event.host}:{event.port}" if event.port is not None else event.host
            text = f"{event.task} registered at {where} (attempt {event.attempt})"
            return EventKind.STARTER_REGISTERED, event.task, text
        case StarterLost():
            task = tasks.get(event.container)
            text = f"{_starter(task)} has been silent for {event.silent_s:.0f} s"
            return EventKind.STARTER_LOST, task, text
        case TaskStarted():
            text = f"{event.task} started its program (attempt {event.attempt})"
            return EventKind.TASK_STARTED, event.task, text
        case TaskExited():
            how = diagnostics.exit_text(event.exit_code, event.signal)
            why = _after_colon(event.reason or event.hint)
            lost = "" if event.output_lost_at is None else f"; {_OUTPUT_LOST}"
            text = f"{event.task} {how} (attempt {event.attempt}){why}{lost}"
            return EventKind.TASK_EXITED, event.task, text
        case OutputLost():
            text = f"{event.task} (attempt {event.attempt}): {_OUTPUT_LOST}"
            return EventKind.OUTPUT_LOST, event.task, text
        case JobBecameIdle():
            text = f"No program has used the processor for {at - event.since:.0f} s"
            return EventKind.JOB_BECAME_IDLE, None, text
        case JobIdleEnded():
            return EventKind.JOB_IDLE_ENDED, None, "The job is no longer idle"
        case ShellRequested():
            text = f"{event.by} asked for a shell in {event.task}"
            return EventKind.SHELL_REQUESTED, event.task, text
        case KillRequested():
            text = f"{event.by} asked to kill the job{_after_colon(event.reason)}"
            return EventKind.KILL_REQUESTED, None, text
        case DeadlinePassed():
            return _deadline_passed(event)
        case _:
            return _unknown(event)


def _describe_command(command: AnyCommand) -> _Description | None:
    match command:
        case PublishClusterSpec(spec=spec):
            tasks = _count(sum(map(len, spec.members.values())), "task")
            text = (
                f"The cluster spec has {tasks} "
                f"(generation {spec.generation}, revision {spec.revision})"
            )
            return EventKind.CLUSTER_SPEC_PUBLISHED, None, text
        case RunAttempt(task=task, attempt=attempt):
            text = f"{task} restarts in its container (attempt {attempt})"
            return EventKind.TASK_RESTART_ORDERED, task, text
        case RequestContainer(request=request):
            if request_number(request) == 1:
                return None  # every task begins with it
            task = requesting_task(request)
            return EventKind.TASK_RESTART_ORDERED, task, f"{task} restarts in a new container"
        case StopTask(task=task):
            return EventKind.TASK_STOP_ORDERED, task, f"{task} was told to stop"
        case FinishJob(status=status, diagnostics=why):
            return (
                EventKind.JOB_FINISHED,
                None,
                f"The job ended as {status.value}{_after_colon(why)}",
            )
        case CancelRequest() | LaunchStarter() | ReleaseContainer():
            return None
        case _:
            return _unknown(command)


def _container_completed(event: ContainerCompleted, task: TaskId | None) -> _Description:
    owner = f" of {task}" if task else ""
    how = diagnostics.exit_text(event.exit_code, event.signal)
    cause = _CAUSES[event.cause]
    brackets = f" ({cause})" if cause else ""
    why = _after_colon("; ".join(text for text in (event.diagnostics, event.detail) if text))
    text = f"Container {event.container}{owner} {how}{brackets}{why}"
    return EventKind.CONTAINER_COMPLETED, task, text


def _deadline_passed(event: DeadlinePassed) -> _Description:
    task = deadlines.backoff_task(event.deadline)
    if task is None:
        text = _DEADLINES[event.deadline]
    else:
        text = f"The pause before the next attempt of {task} is over"
    return EventKind.DEADLINE_PASSED, task, text + _after_colon(event.note)


def _starter(task: TaskId | None) -> str:
    return f"The starter of {task}" if task else "A starter"


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _unknown(event: Never) -> Never:
    raise InternalError(f"there is no text for {event!r}")
