"""The job machine: decides everything about one job, from events to commands.

:meth:`Machine.handle` takes one event and the time it was seen, changes the
state and returns commands. It has no clock, no I/O and no asyncio. Handlers of
events only note facts and react to failures. Whatever follows from the *state*
(all tasks have registered, all tracked tasks have ended, no container is left)
is found by ``_reconcile`` after each event, so the order of events does not
matter for it.

The same events in the same order give the same state: that is how a new master
takes over (``journal/reader.py``). Events of attempts or containers that are no
longer current are ignored.

This module says what happens when. ``containers``, ``restarts``, ``deadlines``
and ``job_end`` say how, as functions that change the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ytf.errors import InternalError
from ytf.machine import containers, deadlines, diagnostics, job_end, restarts
from ytf.machine.commands import (
    AnyCommand,
    PublishClusterSpec,
    ReleaseContainer,
    RunAttempt,
    StopTask,
)
from ytf.machine.containers import CLIENT_CONTAINER, CLIENT_TASK
from ytf.machine.deadlines import (
    AFTER_CHIEF,
    ALLOCATION,
    JOB,
    RELEASE,
    RESTART,
    STOP,
    TENSORBOARD_STAY,
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
from ytf.machine.policies import Action, judge
from ytf.machine.state import Failure, MachineState, Task
from ytf.machine.task_table import LIVE, TaskTable
from ytf.machine.usage import keep_usage
from ytf.specs.ids import ContainerId, TaskId, group_of
from ytf.specs.job import TENSORBOARD, JobSpec, OnFailure
from ytf.specs.status import ClusterSpec, FinalStatus, JobState, TaskState

if TYPE_CHECKING:
    from typing_extensions import Never


def _unknown(event: Never) -> Never:
    raise InternalError(f"the job machine knows no event {event!r}")


class Machine:
    """Runs one job. The module's docstring has the contract."""

    def __init__(self, spec: JobSpec, state: MachineState | None = None) -> None:
        self.spec = spec
        if state is None:
            tasks = [*spec.tasks(), CLIENT_TASK] if spec.client else spec.tasks()
            state = MachineState(tasks={t: Task(id=t) for t in tasks})
        self.state = state
        self._table = TaskTable(spec, state)
        # A restart of the job needs all tasks, so tasks that have succeeded keep their containers.
        self._keeps_ended = any(spec.policy(g) is OnFailure.RESTART_JOB for g in spec.groups)
        self._out: list[AnyCommand] = []

    # ------------------------------------------------------------------ queries

    @property
    def job_state(self) -> JobState:
        """The job's state as users see it. It is final only once all containers have ended."""
        state = self.state
        if state.finished and state.final is not None:
            return JobState(state.final.value)
        if state.began_at is None:
            return JobState.SUBMITTED
        return JobState.STARTING if state.running_since is None else JobState.RUNNING

    @property
    def progress(self) -> float:
        """The progress of the job, from 0 to 1: see ``TaskTable.progress``."""
        return self._table.progress()

    def running_tasks(self) -> list[TaskId]:
        """The tasks whose programs run: first those whose end decides the end of the job."""
        return [task.id for task in self._table.running()]

    def next_deadline(self) -> tuple[str, float] | None:
        """The next deadline. When it has passed, the master gives a ``DeadlinePassed``."""
        return deadlines.first(self.state)

    def due(self, at: float) -> list[str]:
        """The names of all deadlines that have passed."""
        return deadlines.due(self.state, at)

    def order(self, container_id: ContainerId) -> RunAttempt | StopTask | None:
        """The current order for the starter of a container; None if it is not of this job."""
        if container_id not in self.state.containers:
            return None
        return containers.starter_order(self.spec, self.state, container_id)

    def running_programs(self) -> list[ContainerId]:
        """The containers of all running programs, if these are all that the job waits for.

        Empty while a task has yet to start, for a job that no task can end, and
        if one of the programs is at a user's terminal: it may wait for its user.
        """
        state = self.state
        if state.final is not None or state.published is None or not self._table.all_started():
            return []
        if not self._table.tracked_open or CLIENT_CONTAINER in state.containers:
            return []
        running = (t for t in self._table.members() if t.state is TaskState.RUNNING)
        return [t.container for t in running if t.container is not None]

    def commands_to_repeat(self) -> list[AnyCommand]:
        """The commands that a new master repeats, so that the cluster is as the state says."""
        state = self.state
        out: list[AnyCommand] = []
        if state.published is not None:
            out.append(PublishClusterSpec(spec=state.published))
        for container_id, container in state.containers.items():
            if container.registered:
                out.append(containers.starter_order(self.spec, self.state, container_id))
        out.extend(
            containers.request_command(self.spec, state, task, task.request)
            for task in state.tasks.values()
            if task.request is not None
        )
        if state.finished:
            out.append(job_end.finish_command(state))
        return out

    # ------------------------------------------------------------------ events in, commands out

    def handle(self, event: AnyEvent, at: float) -> list[AnyCommand]:
        """Handle one event that was seen at ``at`` (seconds since 1970); returns the commands."""
        state = self.state
        state.last_at = at = max(at, state.last_at)
        if not state.finished:
            self._dispatch(event, at)
            self._reconcile(at)
        elif isinstance(event, ContainerAllocated):
            self._emit(ReleaseContainer(container=event.container))
        out, self._out = self._out, []
        return out

    def _dispatch(self, event: AnyEvent, at: float) -> None:
        match event:
            case MasterStarted():
                self._master_started(event, at)
            case ContainersRecovered():
                self._containers_recovered(event, at)
            case ContainerAllocated():
                self._emit(*containers.assign(self.state, self._table, event))
            case RequestRefused():
                self._request_refused(event, at)
            case LaunchFailed():
                reason = f"its starter could not be launched: {event.reason}"
                self._container_gone(event.container, Cause.EXITED, reason, at)
            case ContainerCompleted():
                self._container_completed(event, at)
            case NodeLost():
                for container_id, container in list(self.state.containers.items()):
                    if container.node == event.node:
                        self._container_gone(container_id, Cause.NODE_LOST, "", at)
            case MessageNoted():
                if event.is_waiting and self._table.requests:
                    self.state.backend_note = event.text
                if event.is_warning and event.text not in self.state.warnings:
                    self.state.warnings.append(event.text)
            case BackendGone():
                self._backend_gone(event, at)
            case StarterRegistered():
                self._starter_registered(event)
            case StarterLost():
                self._starter_lost(event, at)
            case TaskStarted():
                task = self._table.current(event.task, event.attempt, event.container)
                if task is not None and task.state is TaskState.STARTING:
                    self._table.set_state(task, TaskState.RUNNING)
            case TaskExited():
                self._task_exited(event, at)
            case OutputLost():
                self._output_lost(event.task, event.at)
            case JobBecameIdle():
                if self.running_programs():
                    self.state.idle_since = event.since
            case JobIdleEnded():
                self.state.idle_since = None
            case ShellRequested():
                return  # for people to read
            case KillRequested():
                self._kill_requested(event, at)
            case DeadlinePassed():
                self._deadline_passed(event, at)
            case _:
                _unknown(event)

    def _emit(self, *commands: AnyCommand) -> None:
        self._out.extend(commands)

    # ------------------------------------------------------------------ master and containers

    def _master_started(self, event: MasterStarted, at: float) -> None:
        state = self.state
        state.master_attempt = event.attempt
        if state.began_at is not None:
            state.took_over_at = at
            return
        state.began_at = at
        if self.spec.timeouts.job_s is not None:
            state.deadlines[JOB] = at + self.spec.timeouts.job_s
        for task in state.tasks.values():
            if task.id == CLIENT_TASK:
                containers.assign_client(state, self._table)
            else:
                self._emit(containers.request(state, self._table, task))

    def _containers_recovered(self, event: ContainersRecovered, at: float) -> None:
        state = self.state
        alive = set(event.containers)
        for container_id in event.containers:
            if container_id in state.containers:
                state.containers[container_id].recovered_by = state.master_attempt
            else:
                self._emit(ReleaseContainer(container=container_id))
        for container_id, container in list(state.containers.items()):
            if container_id == CLIENT_CONTAINER:
                continue
            if event.complete and container_id not in alive:
                reason = "its container was gone when the master came back"
                self._container_gone(container_id, Cause.NODE_LOST, reason, at)
            elif not container.registered and container.master_attempt < state.master_attempt:
                # Its starter may never have been launched: the journal does not say.
                self._abandon(container_id, "the master restarted before its starter reported", at)
        # StarterLost gives up a registered container that the backend does not report.

    def _request_refused(self, event: RequestRefused, at: float) -> None:
        task = self._table.task_of_request(event.request)
        if task is None or self.state.final is not None:
            return
        self._table.set_request(task, None)
        self._table.set_state(task, TaskState.FAILED)
        task.reason = event.reason
        if group_of(task.id) != TENSORBOARD:
            self._end(FinalStatus.FAILED, f"{task.id} can get no container: {event.reason}", at)

    def _container_gone(
        self, container_id: ContainerId, cause: Cause, reason: str, at: float
    ) -> None:
        """Handle the end of a container that follows from another event."""
        event = ContainerCompleted(container=container_id, cause=cause, diagnostics=reason)
        self._container_completed(event, at)

    def _container_completed(self, event: ContainerCompleted, at: float) -> None:
        container = self.state.containers.get(event.container)
        if container is not None:
            keep_usage(self.state.tasks[container.task], event.usage)
        self._task_lost_container(containers.complete(self.state, self._table, event, at), at)

    def _abandon(
        self, container_id: ContainerId, reason: str, at: float, *, not_kept: bool = False
    ) -> None:
        """Release a container that its task cannot use any more, whatever still runs in it."""
        if container_id != CLIENT_CONTAINER:
            self._emit(ReleaseContainer(container=container_id))
        failure = containers.abandon(self.state, container_id, reason, at, not_kept=not_kept)
        self._task_lost_container(failure, at)

    def _task_lost_container(self, failure: Failure | None, at: float) -> None:
        """Fail the task that lost its container, if it had not ended before."""
        if failure is not None:
            task = self.state.tasks[failure.task]
            self._fail(task, failure, at, ran=self._known_to_peers(task))

    def _backend_gone(self, event: BackendGone, at: float) -> None:
        """All containers are gone. The job fails, unless its outcome was decided before."""
        if self.state.final is None:
            self._end(FinalStatus.FAILED, event.reason, at)
        containers.lose_all(self.state, self._table, event.reason)

    def _known_to_peers(self, task: Task) -> bool:
        """Whether other tasks may know the address of this attempt.

        If not, it can be replaced without a restart of the others.
        """
        if task.state is TaskState.RUNNING or task.id == CLIENT_TASK:
            return True
        return task.state is TaskState.STARTING and self.state.published is not None

    # ------------------------------------------------------------------ starters and programs

    def _starter_registered(self, event: StarterRegistered) -> None:
        task = self._table.current(event.task, event.attempt, event.container)
        if task is None:
            return
        container = self.state.containers[event.container]
        container.registered = True
        container.control = event.control
        if task.state is TaskState.ALLOCATED:
            task.host, task.port = event.host, event.port
            self.state.addresses_changed = True
            self._table.set_state(task, TaskState.STARTING)

    def _starter_lost(self, event: StarterLost, at: float) -> None:
        container = self.state.containers.get(event.container)
        if container is None or not container.needed:
            return
        who = "the client" if event.container == CLIENT_CONTAINER else "its starter"
        reason = f"{who} has sent no heartbeat for {event.silent_s:.0f} s"
        not_kept = containers.was_not_kept(self.state, event)
        self._abandon(event.container, reason, at, not_kept=not_kept)

    def _task_exited(self, event: TaskExited, at: float) -> None:
        task = self._table.current(event.task, event.attempt, event.container)
        if task is None or task.state not in LIVE:
            return
        keep_usage(task, event.usage)
        if event.output_lost_at is not None:
            self._output_lost(event.task, event.output_lost_at)
        container = self.state.containers[event.container]
        if event.exit_code == 0:
            task.exit_code, task.signal, task.reason = 0, event.signal, event.reason
            self._table.set_state(task, TaskState.SUCCEEDED)
            if not self._keeps_ended:
                self._emit(containers.stop(self.state, self._table, event.container))
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
            tail_stream=event.tail_stream,
            hint=event.hint,
            port_lost=event.port_lost,
        )
        self._fail(task, failure, at, ran=True)

    def _output_lost(self, task: TaskId, at: float) -> None:
        if task in self.state.tasks:
            self.state.output_lost.setdefault(task, at)

    # ------------------------------------------------------------------ failure

    def _fail(self, task: Task, failure: Failure, at: float, *, ran: bool) -> None:
        """Note that a task's current attempt has failed, and do what its policy says."""
        state, table = self.state, self._table
        container = state.containers.get(task.container) if task.container else None
        earlier = job_end.failed_earlier(state, failure)
        stopped = container is not None and container.stopping and not earlier
        failed = TaskState.LOST if failure.infrastructure else TaskState.FAILED
        table.set_state(task, TaskState.KILLED if stopped else failed)
        task.exit_code, task.signal = failure.exit_code, failure.signal
        task.reason = failure.reason or failure.hint
        if state.final is not None:
            if earlier:
                job_end.replace_cause(state, table, failure)
            return
        verdict = judge(self.spec, state, task, failure, ran)
        if not failure.infrastructure and not failure.port_lost and failure.node is not None:
            state.node_failures[failure.node] = state.node_failures.get(failure.node, 0) + 1
        group = self.spec.groups.get(group_of(task.id))
        if verdict.action is Action.REPLACE:
            task.launch_failures += not failure.infrastructure
            self._emit(restarts.replace_task(state, table, task))
        elif verdict.action is Action.RESTART_TASK and group is not None:
            delay_s = group.backoff.delay_s(task.restarts) if verdict.counts else 0.0
            task.restarts += verdict.counts
            task.port_losses += failure.port_lost
            restarts.restart_task(state, table, task, not_before=at + delay_s)
        elif verdict.action is Action.RESTART_JOB and group is not None:
            delay_s = group.backoff.delay_s(state.restarts) if verdict.counts else 0.0
            state.restarts += verdict.counts
            task.port_losses += failure.port_lost
            self._emit(*restarts.restart_job(state, table, not_before=at + delay_s))
        elif verdict.action is Action.GIVE_UP_TASK:
            if task.container is not None and container is not None:
                self._emit(containers.stop(state, table, task.container))
        else:
            state.first_failure = failure
            self._end(FinalStatus.FAILED, diagnostics.failure_text(failure, verdict.note), at)

    # ------------------------------------------------------------------ end of the job

    def _kill_requested(self, event: KillRequested, at: float) -> None:
        if self.state.final is None:
            why = f": {event.reason}" if event.reason else ""
            self._end(FinalStatus.KILLED, f"Killed by {event.by}{why}.", at)
        job_end.cut_waits_short(self.state)

    def _end(self, status: FinalStatus, text: str, at: float) -> None:
        """Decide how the job ends. ``_reconcile`` stops its containers."""
        self._emit(*job_end.decide(self.state, self._table, status, text, at))

    # ------------------------------------------------------------------ deadlines

    def _deadline_passed(self, event: DeadlinePassed, at: float) -> None:
        state, table, name = self.state, self._table, event.deadline
        if not deadlines.expire(state, name, at):
            return
        why = deadlines.failure_text(state, table, name, event.note)
        if why is not None and event.output:
            why = f"{why}\n{event.output}"
        if why is not None:
            self._end(FinalStatus.FAILED, why, at)
        elif name == ALLOCATION:
            self._emit(*containers.drop_unallocated(state, table))
        elif name == AFTER_CHIEF:
            job_end.end_after_chief(state, table, at)
        elif name == TENSORBOARD_STAY:
            state.tensorboard_stays = False
        elif name == STOP:
            self._emit(*job_end.release_unstopped(state, at))
        elif name == RELEASE:
            job_end.give_up_waiting(state, table, at)
        elif (task := deadlines.backoff_task(name)) is not None:
            self._emit(restarts.begin_attempt(state, table, state.tasks[task]))
        # Nothing more to do for EVALUATION and RESTART: _reconcile does what waited for them.

    # ------------------------------------------------------------------ consequences of the state

    def _reconcile(self, at: float) -> None:
        """Do all that follows from the state alone."""
        state = self.state
        if state.began_at is None:
            return
        if state.running_since is None and self._table.all_started():
            state.running_since = at
        if state.final is None:
            paused = RESTART in state.deadlines
            if state.addresses_changed and not paused and self._table.all_registered():
                self._publish()
            # After that: with a cluster spec the start is over, and the next event may be far.
            deadlines.update(state, self._table, at)
            end = job_end.outcome(self._table)
            if end is not None:
                self._end(*end, at)
        if state.final is not None:
            self._emit(*job_end.stop_all(state, self._table, at))
            if not state.containers:
                self._emit(job_end.finish(state, at))

    def _publish(self) -> None:
        """Publish the cluster spec if the addresses have changed."""
        state = self.state
        state.addresses_changed = False
        members = self._table.addresses()
        if state.published is None or state.published.members != members:
            state.revision += 1
            state.published = ClusterSpec(
                generation=state.generation, revision=state.revision, members=members
            )
            self._emit(PublishClusterSpec(spec=state.published))
