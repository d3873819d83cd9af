"""The job machine: events in, commands out. No clock, no I/O, no asyncio.

:meth:`Machine.handle` takes one event and the time it was seen, changes the
memory and returns what is to be done. Handlers only note facts and react to
failures; everything that follows from the *state* (the rendezvous is complete,
all tracked tasks are done, nothing is left to stop) is found by ``_settle``
after each event, so that it does not matter which event came last.

The same events in the same order give the same memory: that is how a new
master takes over (``master/journal.py``). Events of attempts or containers
that are no longer current are ignored, whenever they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ytf.errors import InternalError
from ytf.master import diagnostics, orders
from ytf.master.commands import (
    AnyCommand,
    CancelRequest,
    LaunchStarter,
    PublishClusterSpec,
    ReleaseContainer,
    RestartTask,
    StopTask,
)
from ytf.master.conclusions import conclusion
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
from ytf.master.policies import Action, judge, shortage
from ytf.master.roster import LIVE, Roster
from ytf.master.state import Container, Failure, JobMemory, Stopping, Task
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import CLIENT, TENSORBOARD, JobSpec, OnFailure, Timeouts
from ytf.specs.names import ContainerId, RequestId, TaskId, group_of, index_of, task_id
from ytf.specs.status import FinalStatus, JobState, TaskState

if TYPE_CHECKING:
    from typing_extensions import Never

CLIENT_TASK = task_id(CLIENT, 0)
CLIENT_CONTAINER = ContainerId("client_0")
"""The client runs at the submitter's: no backend gave it its container, and none ends it."""

START = "start"
ALLOCATION = "allocation"
RENDEZVOUS = "rendezvous"
JOB = "job"
EVALUATION = "evaluation"
RESTART = "restart"
STOP = "stop"
RELEASE = "release"
BACKOFF = "backoff "

STOP_MARGIN_S = 5.0
"""What a starter gets beyond the grace period before its container is taken away."""
RELEASE_MARGIN_S = 30.0
"""What a backend gets to end a container before the job ends without its word."""


def _start_s(timeouts: Timeouts) -> float:
    """From the wish for containers to the cluster spec, however often one has to be replaced."""
    return timeouts.allocation_s + timeouts.rendezvous_s


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
        deadlines = self.memory.deadlines
        if not deadlines:
            return None
        key = min(deadlines, key=deadlines.__getitem__)
        return key, deadlines[key]

    def due(self, at: float) -> list[str]:
        """All deadlines that have come."""
        return [name for name, due in self.memory.deadlines.items() if due <= at]

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
                self._container_allocated(event)
            case RequestRefused():
                self._request_refused(event, at)
            case LaunchFailed():
                reason = f"its starter could not be launched: {event.reason}"
                self._container_ended(event.container, at, Cause.EXITED, reason)
            case ContainerCompleted():
                self._container_ended(
                    event.container,
                    at,
                    event.cause,
                    event.diagnostics,
                    event.exit_code,
                    event.signal,
                    event.tail,
                )
            case NodeLost():
                for container_id, container in list(self.memory.containers.items()):
                    if container.node == event.node:
                        self._container_ended(container_id, at, Cause.NODE_LOST)
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

    def _say(self, command: AnyCommand) -> None:
        self._out.append(command)

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
                task.container = CLIENT_CONTAINER
                memory.containers[CLIENT_CONTAINER] = Container(task=task.id, node=None)
                self._roster.set_state(task, TaskState.ALLOCATED)
            else:
                self._request(task)

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
                self._container_ended(container_id, at, Cause.NODE_LOST, reason)
            elif not container.registered and container.master_attempt < memory.master_attempt:
                # Whether it was ever launched nobody can tell: its word was not durable.
                self._abandon(container_id, "the master restarted before its starter reported", at)
        # A registered container the backend has not named yet is given up by StarterLost.

    def _container_allocated(self, event: ContainerAllocated) -> None:
        memory = self.memory
        if event.container in memory.containers or event.container in memory.ended:
            return
        task = self._roster.requester(event.request)
        if task is None or memory.final is not None:
            self._say(ReleaseContainer(container=event.container))
            return
        self._roster.set_request(task, None)
        task.container = task.last_container = event.container
        task.node = event.node
        memory.containers[event.container] = Container(
            task=task.id, node=event.node, master_attempt=memory.master_attempt
        )
        self._roster.set_state(task, TaskState.ALLOCATED)
        self._say(
            LaunchStarter(
                container=event.container,
                task=task.id,
                attempt=task.attempt,
                generation=task.generation,
                node=event.node,
            )
        )

    def _request_refused(self, event: RequestRefused, at: float) -> None:
        task = self._roster.requester(event.request)
        if task is None or self.memory.final is not None:
            return
        self._roster.set_request(task, None)
        self._roster.set_state(task, TaskState.FAILED)
        task.reason = event.reason
        if group_of(task.id) != TENSORBOARD:
            self._end(FinalStatus.FAILED, f"{task.id} can get no container: {event.reason}", at)

    def _container_ended(
        self,
        container_id: ContainerId,
        at: float,
        cause: Cause,
        reason: str = "",
        exit_code: int | None = None,
        signal: int | None = None,
        tail: str = "",
    ) -> None:
        container = self.memory.containers.pop(container_id, None)
        if container is None:
            return
        self.memory.ended.add(container_id)
        task = self.memory.tasks[container.task]
        if task.container != container_id:
            return
        task.container = None
        if task.state not in LIVE:
            return
        if container.stopping:
            task.reason = task.reason or "stopped with the job"
            self._roster.set_state(task, TaskState.KILLED)
            return
        failure = Failure(
            task=task.id,
            attempt=task.attempt,
            ended_at=at,
            node=container.node,
            host=task.host,
            exit_code=exit_code,
            signal=signal,
            reason=reason or diagnostics.CAUSES[cause],
            tail=tail,
            infrastructure=cause.is_infrastructure,
        )
        self._fail(task, failure, at, ran=self._known_to_peers(task))

    def _abandon(self, container_id: ContainerId, reason: str, at: float) -> None:
        """Take a task's container away from it, whatever still happens inside."""
        container = self.memory.containers[container_id]
        container.wanted = False
        task = self.memory.tasks[container.task]
        if container_id == CLIENT_CONTAINER:
            del self.memory.containers[container_id]
        else:
            self._say(ReleaseContainer(container=container_id))
        if task.container != container_id:
            return
        task.container = None
        if task.state in LIVE:
            failure = Failure(
                task=task.id,
                attempt=task.attempt,
                ended_at=at,
                node=container.node,
                host=task.host,
                reason=reason,
                infrastructure=container_id != CLIENT_CONTAINER,
            )
            self._fail(task, failure, at, ran=self._known_to_peers(task))

    def _backend_gone(self, event: BackendGone, at: float) -> None:
        """Nothing can run any more: whatever was not decided has failed."""
        if self.memory.final is None:
            self._end(FinalStatus.FAILED, event.reason, at)
        self.memory.containers.clear()
        for task in self.memory.tasks.values():
            task.container = None
            if task.state in LIVE:
                task.reason = event.reason
                self._roster.set_state(task, TaskState.LOST)

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
                self._stop(event.container, container)
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
        memory = self.memory
        container = memory.containers.get(task.container) if task.container else None
        earlier = self._was_first(failure)
        ordered = container is not None and container.stopping and not earlier
        lost = TaskState.LOST if failure.infrastructure else TaskState.FAILED
        self._roster.set_state(task, TaskState.KILLED if ordered else lost)
        task.exit_code, task.signal = failure.exit_code, failure.signal
        task.reason = failure.reason or failure.hint
        if memory.final is not None:
            if earlier:
                self._reconsider(failure)
            return
        verdict = judge(self.spec, memory, task, failure, ran)
        if not failure.infrastructure and not failure.port_lost and failure.node is not None:
            memory.node_failures[failure.node] = memory.node_failures.get(failure.node, 0) + 1
        group = self.spec.groups.get(group_of(task.id))
        if verdict.action is Action.REPLACE:
            task.launch_failures += not failure.infrastructure
            self._reset(task)
            self._begin_attempt(task)
        elif verdict.action is Action.RESTART_TASK and group is not None:
            delay_s = group.backoff.delay_s(task.restarts) if verdict.counts else 0.0
            task.restarts += verdict.counts
            task.port_losses += failure.port_lost
            self._reset(task)
            memory.deadlines[BACKOFF + task.id] = at + delay_s
        elif verdict.action is Action.RESTART_JOB and group is not None:
            delay_s = group.backoff.delay_s(memory.restarts) if verdict.counts else 0.0
            memory.restarts += verdict.counts
            task.port_losses += failure.port_lost
            self._restart_job(not_before=at + delay_s)
        elif verdict.action is Action.GIVE_UP_TASK:
            if task.container is not None and container is not None:
                self._stop(task.container, container)
        else:
            memory.first_failure = failure
            self._end(FinalStatus.FAILED, diagnostics.failure_text(failure, verdict.note), at)

    def _was_first(self, failure: Failure) -> bool:
        """Whether it ended before the failure that decided, though it is told of only now.

        Clocks of two nodes are compared only for what ended while no master
        ran: otherwise what is told first came first.
        """
        first, took_over_at = self.memory.first_failure, self.memory.took_over_at
        if first is None or took_over_at is None:
            return False
        return failure.ended_at < min(first.ended_at, took_over_at)

    def _reconsider(self, failure: Failure) -> None:
        """The first cause is who failed first, though told of later: exits can be late."""
        if self.spec.policy(group_of(failure.task)) is not OnFailure.IGNORE:
            self.memory.first_failure = failure
            self.memory.diagnostics = diagnostics.failure_text(failure)

    def _reset(self, task: Task) -> None:
        """The task's attempt is over, but there will be another."""
        task.host = task.port = task.exit_code = task.signal = None
        task.reason = ""
        self._roster.set_state(task, TaskState.PENDING)

    def _begin_attempt(self, task: Task) -> None:
        """Begin a pending task's next attempt, in the container it has or in a new one."""
        task.attempt += 1
        task.generation = self.memory.generation
        container_id = task.container
        if container_id is not None:
            container = self.memory.containers[container_id]
            if not container.stopping:
                self._roster.set_state(task, TaskState.ALLOCATED)
                self._say(orders.starter_order(self.spec, self.memory, container_id))
                return
            container.wanted = False
            task.container = None
        self._request(task)

    def _restart_job(self, *, not_before: float) -> None:
        """A new generation: every program stops, every member registers again."""
        memory = self.memory
        memory.generation += 1
        memory.published = None
        memory.deadlines[RESTART] = not_before
        memory.deadlines[START] = not_before + _start_s(self.spec.timeouts)
        for task in self._roster.members():
            memory.deadlines.pop(BACKOFF + task.id, None)
            if task.request is not None:
                task.generation = memory.generation
            elif task.id != CLIENT_TASK or task.container is not None:
                self._reset(task)
                self._begin_attempt(task)

    # ------------------------------------------------------------------ ending

    def _kill_requested(self, event: KillRequested, at: float) -> None:
        if self.memory.final is None:
            why = f": {event.reason}" if event.reason else ""
            self._end(FinalStatus.KILLED, f"Killed by {event.by}{why}.", at)
        self.memory.deadlines.pop(EVALUATION, None)

    def _end(self, status: FinalStatus, text: str, at: float) -> None:
        """Decide how the job ends; ``_settle`` stops what runs."""
        memory = self.memory
        memory.final = status
        memory.diagnostics = text
        memory.deadlines.clear()
        for task in memory.tasks.values():
            if task.request is not None:
                self._say(CancelRequest(request=task.request))
                self._roster.set_request(task, None)
            if task.state is TaskState.PENDING:
                task.reason = task.reason or "the job ended before it could start"
                self._roster.set_state(task, TaskState.KILLED)
        if status is FinalStatus.SUCCEEDED and self._roster.evaluating():
            memory.deadlines[EVALUATION] = at + self.spec.timeouts.evaluator_s

    def _stop_all(self, at: float) -> None:
        """Stop every container, but not yet one in which the last evaluation goes on."""
        memory = self.memory
        spared: set[ContainerId | None] = set()
        if EVALUATION in memory.deadlines:
            spared = {t.container for t in self._roster.evaluating()}
        wanted = Stopping.ALL_BUT_EVALUATORS if spared else Stopping.ALL
        if memory.stopping is wanted:
            return
        memory.stopping = wanted
        for container_id, container in list(memory.containers.items()):
            if not container.stopping and container_id not in spared:
                self._stop(container_id, container)
        memory.deadlines[STOP] = at + self.spec.timeouts.stop_grace_s + STOP_MARGIN_S

    def _stop(self, container_id: ContainerId, container: Container) -> None:
        """Stop a container's program and let its starter go."""
        container.stopping = True
        if container.registered or container_id == CLIENT_CONTAINER:
            self._say(orders.starter_order(self.spec, self.memory, container_id))
        else:
            self._say(ReleaseContainer(container=container_id))
        if container_id == CLIENT_CONTAINER:
            task = self.memory.tasks[CLIENT_TASK]
            task.container = None
            del self.memory.containers[container_id]
            if task.state in LIVE:
                self._roster.set_state(task, TaskState.KILLED)

    # ------------------------------------------------------------------ deadlines

    def _deadline_passed(self, event: DeadlinePassed, at: float) -> None:
        memory, name = self.memory, event.deadline
        due = memory.deadlines.get(name)
        if due is None or at < due:
            return
        del memory.deadlines[name]
        timeouts = self.spec.timeouts
        if name == START:
            late = [t for t in self._roster.members() if t.state is not TaskState.STARTING]
            text = diagnostics.start_text(late, _start_s(timeouts), event.note)
            self._end(FinalStatus.FAILED, text, at)
        elif name == ALLOCATION:
            self._allocation_passed(event.note, at)
        elif name == RENDEZVOUS:
            late = [t for t in self._roster.members() if t.state in LIVE - {TaskState.RUNNING}]
            text = diagnostics.rendezvous_text(late, timeouts.rendezvous_s, event.note)
            self._end(FinalStatus.FAILED, text, at)
        elif name == JOB:
            text = f"The job did not end within its time of {timeouts.job_s:g} s."
            self._end(FinalStatus.FAILED, text, at)
        elif name == STOP:
            memory.deadlines[RELEASE] = at + RELEASE_MARGIN_S
            for container_id, container in memory.containers.items():
                if container.stopping:
                    self._say(ReleaseContainer(container=container_id))
        elif name == RELEASE:
            unheard = [c for c, container in memory.containers.items() if container.stopping]
            for container_id in unheard:
                self._container_ended(container_id, at, Cause.RELEASED)
            if unheard:
                memory.diagnostics += (
                    f"\nNobody said that these containers ended: {', '.join(unheard)}."
                )
        elif name.startswith(BACKOFF):
            self._begin_attempt(memory.tasks[TaskId(name.removeprefix(BACKOFF))])
        # EVALUATION and RESTART only had to pass: _settle does what they held back.

    def _allocation_passed(self, note: str, at: float) -> None:
        """Not everything was allocated in time: start with each group's ``min``, or say why not."""
        missing = [t.id for t in self._roster.members() if t.request is not None]
        short = shortage(self.spec, missing, started=self.memory.published is not None)
        if short:
            text = diagnostics.allocation_text(short, self.spec.timeouts.allocation_s, note)
            self._end(FinalStatus.FAILED, text, at)
            return
        # Hosts are a list by index, so only what stands before the first gap can start.
        for group in {group_of(t) for t in missing}:
            first = min(index_of(t) for t in missing if group_of(t) == group)
            for index in range(first, self.spec.groups[group].count):
                self._drop(self.memory.tasks[task_id(group, index)])

    def _drop(self, task: Task) -> None:
        if task.request is not None:
            self._say(CancelRequest(request=task.request))
        if task.container is not None:
            container = self.memory.containers[task.container]
            container.wanted, container.stopping = False, True
            self._say(ReleaseContainer(container=task.container))
            task.container = None
        task.reason = "not allocated in time; the job started without it"
        self.memory.moved = True
        self._roster.drop(task)

    # ------------------------------------------------------------------ what follows from the state

    def _settle(self, at: float) -> None:
        """Bring about all that follows from the state alone."""
        memory = self.memory
        if memory.began_at is None:
            return
        if memory.running_since is None and self._roster.all_started():
            memory.running_since = at
        if memory.final is None:
            self._watch_progress(at)
            if memory.moved and RESTART not in memory.deadlines and self._roster.all_registered():
                self._publish()
            end = conclusion(self._roster)
            if end is not None:
                self._end(*end, at)
        if memory.final is not None:
            self._stop_all(at)
            if not memory.containers:
                memory.finished = True
                memory.finished_at = at
                memory.deadlines.clear()
                self._say(orders.finish_job(memory))

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

    def _watch_progress(self, at: float) -> None:
        """Keep the allocation and rendezvous deadlines exactly while they apply."""
        deadlines, counts = self.memory.deadlines, self._roster.counts
        unready = counts[TaskState.ALLOCATED] + counts[TaskState.STARTING] > 0
        if self.memory.published is not None:
            deadlines.pop(START, None)
        elif START not in deadlines:
            deadlines[START] = at + _start_s(self.spec.timeouts)
        if not self._roster.requests:
            deadlines.pop(ALLOCATION, None)
            self.memory.waiting = ""
        elif ALLOCATION not in deadlines:
            deadlines[ALLOCATION] = at + self.spec.timeouts.allocation_s
        # Others may have to wait for a pause before a restart: that is nobody's fault.
        pausing = RESTART in deadlines or counts[TaskState.PENDING] > self._roster.requests
        if self._roster.requests or pausing or not unready:
            deadlines.pop(RENDEZVOUS, None)
        elif RENDEZVOUS not in deadlines:
            deadlines[RENDEZVOUS] = at + self.spec.timeouts.rendezvous_s

    # ------------------------------------------------------------------ commands

    def _request(self, task: Task) -> None:
        task.requests += 1
        request = RequestId(f"{task.id}#{task.requests}")
        self._roster.set_request(task, request)
        self._say(orders.container_request(self.spec, self.memory, task, request))
