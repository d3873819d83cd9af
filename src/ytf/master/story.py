"""A job's story for people: events and decisions, in words."""

from __future__ import annotations

from ytf.master import diagnostics
from ytf.master.commands import (
    AnyCommand,
    FinishJob,
    PublishClusterSpec,
    RequestContainer,
    RestartTask,
    StopTask,
)
from ytf.master.events import (
    AnyEvent,
    BackendGone,
    BackendNoted,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    DeadlinePassed,
    KillRequested,
    LaunchFailed,
    MasterStarted,
    NodeLost,
    RequestRefused,
    StarterLost,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.specs.names import ContainerId, TaskId
from ytf.specs.status import JobEvent


def tell_event(event: AnyEvent, at: float, tasks: dict[ContainerId, TaskId]) -> JobEvent:
    """One event in words. ``tasks`` knows whose a container is."""
    task: str | None = getattr(event, "task", None)
    container: ContainerId | None = getattr(event, "container", None)
    if task is None and container is not None:
        task = tasks.get(container)
    return JobEvent(at=at, event=type(event).__name__, task=task, text=_event_text(event))


def tell_command(command: AnyCommand, at: float) -> JobEvent | None:
    """One decision in words; None for those that an event will tell of soon enough."""
    match command:
        case PublishClusterSpec(spec=spec):
            count = sum(map(len, spec.members.values()))
            who = "1 task" if count == 1 else f"{count} tasks"
            text = f"generation {spec.generation}, revision {spec.revision}: {who}"
            return JobEvent(at=at, event="ClusterSpecPublished", text=text)
        case RestartTask(task=task, attempt=attempt):
            text = f"as attempt {attempt}, in the container it has"
            return JobEvent(at=at, event="TaskRestarting", task=task, text=text)
        case RequestContainer(request=request):
            # <task>#<number>: the first is how every task begins.
            asker, _, number = request.rpartition("#")
            if number == "1":
                return None
            text = "in another container"
            return JobEvent(at=at, event="TaskRestarting", task=asker, text=text)
        case StopTask(task=task):
            return JobEvent(at=at, event="TaskStopping", task=task, text="told to stop")
        case FinishJob(status=status, diagnostics=text):
            return JobEvent(at=at, event="JobFinished", text=f"{status.value}: {text}")
    return None


def _event_text(event: AnyEvent) -> str:
    match event:
        case MasterStarted():
            return f"master attempt {event.attempt}"
        case ContainersRecovered():
            count = len(event.containers)
            who = "1 container" if count == 1 else f"{count} containers"
            return f"{who} lived on without a master"
        case ContainerAllocated():
            return f"{event.container} on {event.node}"
        case RequestRefused() | LaunchFailed() | BackendGone():
            return event.reason
        case ContainerCompleted():
            how = diagnostics.ending(event.exit_code, event.signal)
            told = "; ".join(text for text in (event.diagnostics, event.detail) if text)
            return f"{event.container} {how} ({event.cause.value})" + (f": {told}" if told else "")
        case NodeLost():
            return event.node
        case BackendNoted():
            return event.text
        case StarterRegistered():
            where = f"{event.host}:{event.port}" if event.port is not None else event.host
            return f"attempt {event.attempt} at {where}"
        case StarterLost():
            return f"silent for {event.silent_s:.0f} s"
        case TaskStarted():
            return f"attempt {event.attempt}"
        case TaskExited():
            how = diagnostics.ending(event.exit_code, event.signal)
            told = event.reason or event.hint
            return f"attempt {event.attempt} {how}" + (f": {told}" if told else "")
        case KillRequested():
            return f"by {event.by}" + (f": {event.reason}" if event.reason else "")
        case DeadlinePassed():
            return f"{event.deadline}" + (f": {event.note}" if event.note else "")
