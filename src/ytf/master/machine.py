"""The job machine: events in, commands out. No clock, no I/O, no asyncio.

:meth:`Machine.handle` takes one event and the time it was seen, changes the
memory and returns what is to be done. Handlers only note facts and react to
failures; everything that follows from the *state* (the rendezvous is complete,
all tracked tasks are done, nothing is left to stop) is found by ``_settle``
after each event, so that it does not matter which event came last.

The same events in the same order give the same memory: that is how a new
master takes over (``master/journal.py``). Events of attempts or containers
that are no longer current are ignored, whenever they come.

Here is what happens when; how it is brought about is in ``containers``,
``restarts``, ``deadlines`` and ``ending``, as functions over the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ytf.errors import InternalError
from ytf.master import containers, deadlines, diagnostics, ending, orders, restarts
from ytf.master.commands import (
    AnyCommand,
    PublishClusterSpec,
    ReleaseContainer,
    RestartTask,
    StopTask,
)
from ytf.master.conclusions import conclusion
from ytf.master.containers import CLIENT_CONTAINER, CLIENT_TASK
from ytf.master.deadlines import (
    ALLOCATION,
    BACKOFF,
    EVALUATION,
    JOB,
    RELEASE,
    RESTART,
    STOP,
)
from ytf.master.events import (
    AnyEvent,
    BackendGone,
    BackendNoted,
    Cause,
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
from ytf.master.policies import Action, judge
from ytf.master.roster import LIVE, Roster
from ytf.master.state import Failure, JobMemory, Task
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import TENSORBOARD, JobSpec, OnFailure
from ytf.specs.names import ContainerId, TaskId, group_of
from ytf.specs.status import FinalStatus, JobState, TaskState

if TYPE_CHECKING:
    from typing_extensions import Never


def _unknown(event: Never) -> Never:
    raise InternalError(f"the job machine knows no event {event!r}")


class Machine:
    """One job's life. See the module's docstring for the contract."""

    def __init__(self, spec: JobSpec, memory: JobMemory | None = None) -> None:
        self.spec = spec
        if memory is None:
            tasks = [*spec.tasks(), CLIENT_TASK] if spec.client else spec.tasks()
            memory = JobMemory(tasks={t: Task(id=t) for t in tasks})
        self.memory = memory
        self._roster = Roster(spec, memory)
        # After a restart of the whole job everyone takes part again, also who had finished.
        self._keeps_ended = any(spec.policy(g) is OnFailure.RESTART_JOB for g in spec.groups)
        self._out: list[AnyCommand] = []

    # ------------------------------------------------------------------ asking

    @property
    def state(self) -> JobState:
        """The job's state as users see it; final only once everything is stopped."""
        memory = self.memory
        if memory.finished and memory.final is not None:
            return JobState(memory.final.value)
        if memory.began_at is None:
            return JobState.SUBMITTED
        return JobState.STARTING if memory.running_since is None else JobState.RUNNING

    @property
    def progress(self) -> float:
        """How far the job is, from 0 to 1: see ``Roster.progress``."""
        return self._roster.progress()

    def next_deadline(self) -> tuple[str, float] | None:
        """The deadline that comes first: feed ``DeadlinePassed`` when it has come."""
        return deadlines.first(self.memory)

    def due(self, at: float) -> list[str]:
        """All deadlines that have come."""
        return deadlines.due(self.memory, at)

    def order(self, container_id: ContainerId) -> RestartTask | StopTask | None:
        """What the starter of a container is to do now; None: it has no business here."""
        if container_id not in self.memory.containers:
            return None
        return orders.starter_order(self.spec, self.memory, container_id)

    def resume(self) -> list[AnyCommand]:
        """What a new master must say again, for the world to be as the memory has it."""
        memory = self.memory
        out: list[AnyCommand] = []
        if memory.published is not None:
            out.append(PublishClusterSpec(spec=memory.published))
        for container_id, container in memory.containers.items():
            if container.registered:
                out.append(orders.starter_order(self.spec, self.memory, container_id))
        out.extend(
            orders.container_request(self.spec, memory, task, task.request)
            for task in memory.tasks.values()
            if task.request is not None
        )
        if memory.finished:
            out.append(orders.finish_job(memory))
        return out

    # ------------------------------------------------------------------ driving

    def handle(self, event: AnyEvent, at: float) -> list[AnyCommand]:
        """Take in one event seen at ``at`` (seconds since 1970); returns what is to be done."""
        memory = self.memory
        memory.last_at = at = max(at, memory.last_at)
        if not memory.finished:
            self._dispatch(event, at)
            self._settle(at)
        elif isinstance(event, ContainerAllocated):
            self._say(ReleaseContainer(container=event.container))
        out, self._out = self._out, []
        return out

    def _dispatch(self, event: AnyEvent, at: float) -> None:
        match event:
            case MasterStarted():
                self._master_started(event, at)
            case ContainersRecovered():
                self._containers_recovered(event, at)
            case ContainerAllocated():
                self._say(*containers.accept(self.memory, self._roster, event))
            case RequestRefused():
                self._request_refused(event, at)
            case LaunchFailed():
                reason = f"its starter could not be launched: {event.reason}"
                self._container_gone(event.container, Cause.EXITED, reason, at)
            case ContainerCompleted():
                self._container_completed(event, at)
            case NodeLost():
                for container_id, container in list(self.memory.containers.items()):
                    if container.node == event.node:
                        self._container_gone(container_id, Cause.NODE_LOST, "", at)
            case BackendNoted():
                if event.is_waiting and self._roster.requests:
                    self.memory.waiting = event.text
            case BackendGone():
                self._backend_gone(event, at)
            case StarterRegistered():
                self._starter_registered(event)
            case StarterLost():
                self._starter_lost(event, at)
            case TaskStarted():
                task = self._roster.current(event.task, event.attempt, event.container)
                if task is not None and task.state is TaskState.STARTING:
                    self._roster.set_state(task, TaskState.RUNNING)
            case TaskExited():
                self._task_exited(event, at)
            case KillRequested():
                self._kill_requested(event, at)
            case DeadlinePassed():
                self._deadline_passed(event, at)
            case _:
                _unknown(event)

    def _say(self, *commands: AnyCommand) -> None:
        self._out.extend(commands)

    # ------------------------------------------------------------------ master and containers

    def _master_started(self, event: MasterStarted, at: float) -> None:
        memory = self.memory
        memory.master_attempt = event.attempt
        if memory.began_at is not None:
            memory.took_over_at = at
            return
        memory.began_at = at
        if self.spec.timeouts.job_s is not None:
            memory.deadlines[JOB] = at + self.spec.timeouts.job_s
        for task in memory.tasks.values():
            if task.id == CLIENT_TASK:
                containers.accept_client(memory, self._roster)
            else:
                self._say(restarts.request_container(memory, self._roster, task))

    def _containers_recovered(self, event: ContainersRecovered, at: float) -> None:
        memory = self.memory
        alive = set(event.containers)
        for container_id in event.containers:
            if container_id not in memory.containers:
                self._say(ReleaseContainer(container=container_id))
        for container_id, container in list(memory.containers.items()):
            if container_id == CLIENT_CONTAINER:
                continue
            if event.complete and container_id not in alive:
                reason = "its container was gone when the master came back"
                self._container_gone(container_id, Cause.NODE_LOST, reason, at)
            elif not container.registered and container.master_attempt < memory.master_attempt:
                # Whether it was ever launched nobody can tell: its word was not durable.
                self._abandon(container_id, "the master restarted before its starter reported", at)
        # A registered container the backend has not named yet is given up by StarterLost.

    def _request_refused(self, event: RequestRefused, at: float) -> None:
        task = self._roster.requester(event.request)
        if task is None or self.memory.final is not None:
            return
        self._roster.set_request(task, None)
        self._roster.set_state(task, TaskState.FAILED)
        task.reason = event.reason
        if group_of(task.id) != TENSORBOARD:
            self._end(FinalStatus.FAILED, f"{task.id} can get no container: {event.reason}", at)

    def _container_gone(
        self, container_id: ContainerId, cause: Cause, reason: str, at: float
    ) -> None:
        """A container is gone, as follows from something else that was told."""
        event = ContainerCompleted(container=container_id, cause=cause, diagnostics=reason)
        self._container_completed(event, at)

    def _container_completed(self, event: ContainerCompleted, at: float) -> None:
        self._lose(containers.end(self.memory, self._roster, event, at), at)

    def _abandon(self, container_id: ContainerId, reason: str, at: float) -> None:
        """Take a task's container away from it, whatever still happens inside."""
        if container_id != CLIENT_CONTAINER:
            self._say(ReleaseContainer(container=container_id))
        self._lose(containers.abandon(self.memory, container_id, reason, at), at)

    def _lose(self, failure: Failure | None, at: float) -> None:
        """A container is lost to its task, which failed with it or did not need it any more."""
        if failure is not None:
            task = self.memory.tasks[failure.task]
            self._fail(task, failure, at, ran=self._known_to_peers(task))

    def _backend_gone(self, event: BackendGone, at: float) -> None:
        """Nothing can run any more: whatever was not decided has failed."""
        if self.memory.final is None:
            self._end(FinalStatus.FAILED, event.reason, at)
        containers.lose_all(self.memory, self._roster, event.reason)

    def _known_to_peers(self, task: Task) -> bool:
        """Whether others may already talk to this attempt, so that it cannot be replaced unseen."""
        if task.state is TaskState.RUNNING or task.id == CLIENT_TASK:
            return True
        return task.state is TaskState.STARTING and self.memory.published is not None

    # ------------------------------------------------------------------ starters and programs

    def _starter_registered(self, event: StarterRegistered) -> None:
        task = self._roster.current(event.task, event.attempt, event.container)
        if task is None:
            return
        container = self.memory.containers[event.container]
        container.registered = True
        container.control = event.control
        if task.state is TaskState.ALLOCATED:
            task.host, task.port = event.host, event.port
            self.memory.moved = True
            self._roster.set_state(task, TaskState.STARTING)

    def _starter_lost(self, event: StarterLost, at: float) -> None:
        container = self.memory.containers.get(event.container)
        if container is None or not container.wanted:
            return
        who = "the client" if event.container == CLIENT_CONTAINER else "its starter"
        reason = f"{who} has not been heard of for {event.silent_s:.0f} s"
        self._abandon(event.container, reason, at)

    def _task_exited(self, event: TaskExited, at: float) -> None:
        task = self._roster.current(event.task, event.attempt, event.container)
        if task is None or task.state not in LIVE:
            return
        container = self.memory.containers[event.container]
        task.exit_code, task.signal, task.reason = event.exit_code, event.signal, event.reason
        if event.exit_code == 0:
            self._roster.set_state(task, TaskState.SUCCEEDED)
            if not self._keeps_ended:
                self._say(containers.stop(self.memory, self._roster, event.container))
            return
        failure = Failure(
            task=task.id,
            attempt=task.attempt,
            ended_at=min(event.ended_at, at),
            node=container.node,
            host=task.host,
            exit_code=event.exit_code,
            signal=event.signal,
            reason=event.reason,
            tail=event.tail,
            hint=event.hint,
            port_lost=event.port_lost,
        )
        self._fail(task, failure, at, ran=True)

    # ------------------------------------------------------------------ failure

    def _fail(self, task: Task, failure: Failure, at: float, *, ran: bool) -> None:
        """A task's current attempt is over, and not well: do what its policy says."""
        memory, roster = self.memory, self._roster
        container = memory.containers.get(task.container) if task.container else None
        earlier = ending.preceded(memory, failure)
        ordered = container is not None and container.stopping and not earlier
        lost = TaskState.LOST if failure.infrastructure else TaskState.FAILED
        roster.set_state(task, TaskState.KILLED if ordered else lost)
        task.exit_code, task.signal = failure.exit_code, failure.signal
        task.reason = failure.reason or failure.hint
        if memory.final is not None:
            if earlier:
                ending.reconsider(memory, roster, failure)
            return
        verdict = judge(self.spec, memory, task, failure, ran)
        if not failure.infrastructure and not failure.port_lost and failure.node is not None:
            memory.node_failures[failure.node] = memory.node_failures.get(failure.node, 0) + 1
        group = self.spec.groups.get(group_of(task.id))
        if verdict.action is Action.REPLACE:
            task.launch_failures += not failure.infrastructure
            self._say(restarts.replace_task(memory, roster, task))
        elif verdict.action is Action.RESTART_TASK and group is not None:
            delay_s = group.backoff.delay_s(task.restarts) if verdict.counts else 0.0
            task.restarts += verdict.counts
            task.port_losses += failure.port_lost
            restarts.restart_task(memory, roster, task, not_before=at + delay_s)
        elif verdict.action is Action.RESTART_JOB and group is not None:
            delay_s = group.backoff.delay_s(memory.restarts) if verdict.counts else 0.0
            memory.restarts += verdict.counts
            task.port_losses += failure.port_lost
            self._say(*restarts.restart_job(memory, roster, not_before=at + delay_s))
        elif verdict.action is Action.GIVE_UP_TASK:
            if task.container is not None and container is not None:
                self._say(containers.stop(memory, roster, task.container))
        else:
            memory.first_failure = failure
            self._end(FinalStatus.FAILED, diagnostics.failure_text(failure, verdict.note), at)

    # ------------------------------------------------------------------ ending

    def _kill_requested(self, event: KillRequested, at: float) -> None:
        if self.memory.final is None:
            why = f": {event.reason}" if event.reason else ""
            self._end(FinalStatus.KILLED, f"Killed by {event.by}{why}.", at)
        self.memory.deadlines.pop(EVALUATION, None)

    def _end(self, status: FinalStatus, text: str, at: float) -> None:
        """Decide how the job ends; ``_settle`` stops what runs."""
        self._say(*ending.decide(self.memory, self._roster, status, text, at))

    # ------------------------------------------------------------------ deadlines

    def _deadline_passed(self, event: DeadlinePassed, at: float) -> None:
        memory, roster, name = self.memory, self._roster, event.deadline
        if not deadlines.take(memory, name, at):
            return
        why = deadlines.why_fatal(memory, roster, name, event.note)
        if why is not None:
            self._end(FinalStatus.FAILED, why, at)
        elif name == ALLOCATION:
            self._say(*containers.go_without(memory, roster))
        elif name == STOP:
            self._say(*ending.release(memory, at))
        elif name == RELEASE:
            ending.give_up(memory, roster, at)
        elif name.startswith(BACKOFF):
            task = memory.tasks[TaskId(name.removeprefix(BACKOFF))]
            self._say(restarts.begin_attempt(memory, roster, task))
        # EVALUATION and RESTART only had to pass: _settle does what they held back.

    # ------------------------------------------------------------------ what follows from the state

    def _settle(self, at: float) -> None:
        """Bring about all that follows from the state alone."""
        memory = self.memory
        if memory.began_at is None:
            return
        if memory.running_since is None and self._roster.all_started():
            memory.running_since = at
        if memory.final is None:
            deadlines.watch(memory, self._roster, at)
            if memory.moved and RESTART not in memory.deadlines and self._roster.all_registered():
                self._publish()
            end = conclusion(self._roster)
            if end is not None:
                self._end(*end, at)
        if memory.final is not None:
            self._say(*ending.stop_all(memory, self._roster, at))
            if not memory.containers:
                self._say(ending.finish(memory, at))

    def _publish(self) -> None:
        """Tell everyone where everyone is, unless they know."""
        memory = self.memory
        memory.moved = False
        members = self._roster.addresses()
        if memory.published is None or memory.published.members != members:
            memory.revision += 1
            memory.published = ClusterSpec(
                generation=memory.generation, revision=memory.revision, members=members
            )
            self._say(PublishClusterSpec(spec=memory.published))
