"""Events, commands and failures in the sentences that users read."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from ytf.machine import deadlines
from ytf.machine.commands import (
    AnyCommand,
    CancelRequest,
    ContainerProfile,
    FinishJob,
    LaunchStarter,
    PublishClusterSpec,
    ReleaseContainer,
    RequestContainer,
    RunAttempt,
    StopTask,
)
from ytf.machine.diagnostics import failure_text
from ytf.machine.event_text import describe_command, describe_event
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
from ytf.machine.state import Failure, request_id
from ytf.specs.event_kinds import EventKind
from ytf.specs.ids import ContainerId, NodeId, TaskId
from ytf.specs.job import Resources
from ytf.specs.status import ClusterSpec, FinalStatus, JobEvent

WORKER = TaskId("worker:0")
C1 = ContainerId("c1")
N1 = NodeId("n1")
TASKS = {C1: WORKER}


def _registered(port: int | None) -> StarterRegistered:
    return StarterRegistered(
        task=WORKER, attempt=2, container=C1, host="h", port=port, control=None
    )


def _exited(code: int | None, signal: int | None, reason: str = "", hint: str = "") -> TaskExited:
    return TaskExited(
        task=WORKER,
        attempt=1,
        container=C1,
        exit_code=code,
        signal=signal,
        ended_at=1.0,
        reason=reason,
        hint=hint,
    )


def _completed(cause: Cause, container: ContainerId = C1, **fields: object) -> ContainerCompleted:
    return ContainerCompleted(container=container, cause=cause, **fields)  # type: ignore[arg-type]


EVENTS: list[tuple[AnyEvent, EventKind, TaskId | None, str]] = [
    (MasterStarted(attempt=2), EventKind.MASTER_STARTED, None, "Master attempt 2 started"),
    (
        ContainersRecovered(containers=(C1,), complete=True),
        *(EventKind.CONTAINERS_RECOVERED, None, "1 container kept running without a master"),
    ),
    (
        ContainersRecovered(containers=(), complete=True),
        *(EventKind.CONTAINERS_RECOVERED, None, "0 containers kept running without a master"),
    ),
    (
        ContainerAllocated(request=request_id(WORKER, 1), container=C1, node=N1),
        *(EventKind.CONTAINER_ALLOCATED, WORKER, "worker:0 got container c1 on n1"),
    ),
    (
        ContainerAllocated(request=request_id(WORKER, 1), container=ContainerId("c9"), node=N1),
        *(
            EventKind.CONTAINER_ALLOCATED,
            None,
            "The master releases the surplus container c9 on n1",
        ),
    ),
    (
        RequestRefused(request=request_id(WORKER, 3), reason="too large"),
        *(EventKind.REQUEST_REFUSED, WORKER, "worker:0 can get no container: too large"),
    ),
    (
        LaunchFailed(container=C1, reason="no disk"),
        *(EventKind.LAUNCH_FAILED, WORKER),
        "The starter of worker:0 was not launched in c1: no disk",
    ),
    (
        _completed(Cause.EXITED, exit_code=3, diagnostics="it fell", detail="exit 3"),
        *(EventKind.CONTAINER_COMPLETED, WORKER),
        "Container c1 of worker:0 exited with code 3: it fell; exit 3",
    ),
    (
        _completed(Cause.PREEMPTED, ContainerId("c9")),
        *(EventKind.CONTAINER_COMPLETED, None, "Container c9 ended (preempted)"),
    ),
    (NodeLost(node=N1), EventKind.NODE_LOST, None, "Node n1 was lost, with all its containers"),
    (MessageNoted(text="Busy."), EventKind.NOTE, None, "Busy."),
    (
        BackendGone(reason="the node died"),
        *(EventKind.BACKEND_GONE, None, "All containers are lost: the node died"),
    ),
    (
        _registered(4),
        *(EventKind.STARTER_REGISTERED, WORKER, "worker:0 registered at h:4 (attempt 2)"),
    ),
    (
        _registered(None),
        *(EventKind.STARTER_REGISTERED, WORKER, "worker:0 registered at h (attempt 2)"),
    ),
    (
        StarterLost(container=C1, silent_s=30.4),
        *(EventKind.STARTER_LOST, WORKER, "The starter of worker:0 has been silent for 30 s"),
    ),
    (
        TaskStarted(task=WORKER, attempt=1, container=C1),
        *(EventKind.TASK_STARTED, WORKER, "worker:0 started its program (attempt 1)"),
    ),
    (_exited(3, None), EventKind.TASK_EXITED, WORKER, "worker:0 exited with code 3 (attempt 1)"),
    (
        _exited(None, 9, hint="add memory"),
        *(EventKind.TASK_EXITED, WORKER),
        "worker:0 was ended by SIGKILL (attempt 1): add memory",
    ),
    (
        KillRequested(by="ada", reason="enough"),
        *(EventKind.KILL_REQUESTED, None, "ada asked to kill the job: enough"),
    ),
    (
        ShellRequested(task=WORKER, by="ada"),
        *(EventKind.SHELL_REQUESTED, WORKER, "ada asked for a shell in worker:0"),
    ),
    (
        OutputLost(task=WORKER, attempt=2, container=C1, at=1.0),
        EventKind.OUTPUT_LOST,
        WORKER,
        (
            "worker:0 (attempt 2): the disk of its logs is full, and lines of its output "
            "may be missing"
        ),
    ),
    (
        JobBecameIdle(since=-299.0),
        *(EventKind.JOB_BECAME_IDLE, None, "No program has used the processor for 300 s"),
    ),
    (
        JobIdleEnded(),
        *(EventKind.JOB_IDLE_ENDED, None, "The job is no longer idle"),
    ),
    (
        DeadlinePassed(deadline=deadlines.ALLOCATION, note="The queue is full."),
        *(EventKind.DEADLINE_PASSED, None),
        "The time for the allocation of containers is over: The queue is full.",
    ),
    (
        DeadlinePassed(deadline=deadlines.BACKOFF + WORKER),
        *(EventKind.DEADLINE_PASSED, WORKER),
        "The pause before the next attempt of worker:0 is over",
    ),
]


def _request(number: int) -> RequestContainer:
    profile = ContainerProfile(group="worker", resources=Resources())
    return RequestContainer(request=request_id(WORKER, number), profile=profile, priority=1)


def _published(hosts: int) -> PublishClusterSpec:
    members = {"worker": ("h:1",) * hosts}
    return PublishClusterSpec(spec=ClusterSpec(generation=1, revision=2, members=members))


COMMANDS: list[tuple[AnyCommand, EventKind, TaskId | None, str]] = [
    (
        RunAttempt(task=WORKER, container=C1, attempt=2, generation=1, grace_s=1.0),
        *(EventKind.TASK_RESTART_ORDERED, WORKER, "worker:0 restarts in its container (attempt 2)"),
    ),
    (_request(2), EventKind.TASK_RESTART_ORDERED, WORKER, "worker:0 restarts in a new container"),
    (
        _published(1),
        *(EventKind.CLUSTER_SPEC_PUBLISHED, None),
        "The cluster spec has 1 task (generation 1, revision 2)",
    ),
    (
        _published(2),
        *(EventKind.CLUSTER_SPEC_PUBLISHED, None),
        "The cluster spec has 2 tasks (generation 1, revision 2)",
    ),
    (
        StopTask(task=WORKER, container=C1, grace_s=1.0),
        *(EventKind.TASK_STOP_ORDERED, WORKER, "worker:0 was told to stop"),
    ),
    (
        FinishJob(status=FinalStatus.FAILED, diagnostics="worker:0 fell.\nmore"),
        *(EventKind.JOB_FINISHED, None, "The job ended as FAILED: worker:0 fell.\nmore"),
    ),
]
UNTOLD: list[AnyCommand] = [
    _request(1),
    CancelRequest(request=request_id(WORKER, 1)),
    LaunchStarter(container=C1, task=WORKER, attempt=1, generation=1, node=N1),
    ReleaseContainer(container=C1),
]


@pytest.mark.parametrize(("event", "kind", "task", "text"), EVENTS)
def test_an_event_in_words(
    event: AnyEvent, kind: EventKind, task: TaskId | None, text: str
) -> None:
    told = JobEvent(at=1.0, event=kind.value, task=task, text=text)
    assert describe_event(event, 1.0, TASKS) == told


@pytest.mark.parametrize(("command", "kind", "task", "text"), COMMANDS)
def test_a_command_in_words(
    command: AnyCommand, kind: EventKind, task: TaskId | None, text: str
) -> None:
    told = JobEvent(at=1.0, event=kind.value, task=task, text=text)
    assert describe_command(command, 1.0) == told


@pytest.mark.parametrize("command", UNTOLD)
def test_a_command_whose_effect_another_event_shows_is_not_told(command: AnyCommand) -> None:
    assert describe_command(command, 1.0) is None


def test_every_event_and_command_has_a_text_and_every_kind_is_used() -> None:
    assert {type(event) for event, *_ in EVENTS} == set(get_args(AnyEvent))
    commands = {type(command) for command, *_ in COMMANDS} | {type(c) for c in UNTOLD}
    assert commands == set(get_args(AnyCommand))
    used = {kind for _, kind, *_ in EVENTS} | {kind for _, kind, *_ in COMMANDS}
    assert used == set(EventKind) - {EventKind.MASTER_UNREACHABLE}, "the client adds that one"


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_words(cause: Cause) -> None:
    text = describe_event(_completed(cause), 1.0, TASKS).text
    assert text.startswith("Container c1 of worker:0 ended")


@pytest.mark.parametrize(
    "name",
    [
        value
        for name, value in vars(deadlines).items()
        if name.isupper() and isinstance(value, str) and value != deadlines.BACKOFF
    ],
)
def test_every_deadline_has_words(name: str) -> None:
    told = describe_event(DeadlinePassed(deadline=name), 1.0, TASKS)
    assert told.text.startswith("The ")
    assert told.text.endswith(" is over")


def test_the_place_of_a_failure_comes_before_its_reason() -> None:
    failure = Failure(
        task=WORKER,
        attempt=2,
        ended_at=1.0,
        node=N1,
        host=None,
        exit_code=3,
        reason="a long reason",
        tail="last\nwords\n",
        hint="do this",
    )
    assert failure_text(failure, "A note.") == (
        "worker:0, attempt 2, exited with code 3 on n1: a long reason.\n"
        "Last lines of its stderr:\n  | last\n  | words\n"
        "hint: do this\n"
        "A note."
    )
    silent = msgspec.structs.replace(failure, tail_stream="stdout")
    assert "\nLast lines of its stdout (its stderr is empty):\n  | last\n" in failure_text(silent)
