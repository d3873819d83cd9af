"""The master of a job: gives events to the job machine and executes its commands.

Its loop takes events in batches: the machine handles them, the journal writes
them, and only then their commands are executed and the reports of starters
answered. While one batch is written, the next one collects, so the number of
writes stays small however many starters report at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import msgspec
from async_timeout import timeout

from ytf.backends.api import ContainerBackend
from ytf.backends.launch import make_starter_launch
from ytf.frameworks.hints import exit_hint
from ytf.journal.format import Entry
from ytf.journal.reader import Replay
from ytf.journal.writer import Journal, JournalError
from ytf.log import LimitedLog, log
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
from ytf.machine.deadlines import ALLOCATION, MAY_FAIL_JOB, RENDEZVOUS
from ytf.machine.events import (
    AnyEvent,
    BackendGone,
    ContainerCompleted,
    DeadlinePassed,
    KillRequested,
    LaunchFailed,
    MasterStarted,
    MessageNoted,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.machine.machine import Machine
from ytf.machine.projection import Projection
from ytf.master.heartbeats import HeartbeatMonitor
from ytf.master.job_view import MasterJobView
from ytf.master.last_output import last_output
from ytf.master.program_monitor import ProgramMonitor
from ytf.master.usage_monitor import UsageMonitor
from ytf.registry.api import Order, Registry
from ytf.specs.ids import ContainerId
from ytf.specs.job import JobSpec
from ytf.specs.status import (
    JobInfo,
    TaskState,
)
from ytf.web.log_tails import LogTails

SNAPSHOT_EVERY = 2000
"""The number of events between two snapshots: a new master replays at most as many."""
BATCH_DELAY_S = 0.1
"""How long registrations and starts wait for others, to be written in one file.

A file in HDFS costs some tens of milliseconds, on machines that are busy
starting containers at that time. The wait delays nothing: a registration has no
consequences before the last one has come.
"""
PROGRAM_CHECK_S = 2.0
"""How often the conditions of programs are looked at, which came with the starters' heartbeats."""
JOURNAL_WAIT_S = 5.0
"""How long a starter's report waits for a journal that is late, before the starter is told to
try again."""
_JOURNAL_WATCH_S = 1.0
_TASKS_AT_ONCE = 100
"""Of how many tasks the usage is taken before others get their turn."""


class _QueuedEvent(msgspec.Struct):
    """An event, and who waits until it is in the journal."""

    event: AnyEvent
    durable: asyncio.Future[None] | None


class _AppliedBatch(msgspec.Struct):
    """Events that the machine has handled, and the commands that followed."""

    queued: list[_QueuedEvent]
    entries: list[Entry]
    commands: list[AnyCommand]

    def __add__(self, more: _AppliedBatch) -> _AppliedBatch:
        return _AppliedBatch(
            self.queued + more.queued, self.entries + more.entries, self.commands + more.commands
        )

    @property
    def can_wait(self) -> bool:
        """Whether it holds registrations and starts only, and no command followed."""
        return not self.commands and all(
            isinstance(queued.event, StarterRegistered | TaskStarted) for queued in self.queued
        )


class Master:
    """Runs one job to its end.

    Implements ``ReportSink`` for the registry; ``view`` is the job for clients and
    its page. ``url`` is this master's address for starters and clients,
    ``page_url`` the address of the job's page. ``log_tails`` reads what tasks
    wrote last, for the reason of a job that took too long.
    """

    def __init__(
        self,
        *,
        spec: JobSpec,
        info: JobInfo,
        url: str,
        journal: Journal,
        backend: ContainerBackend,
        registry: Registry,
        page_url: str | None = None,
        log_tails: LogTails | None = None,
    ) -> None:
        self._spec = spec
        self._info = info
        self._url = url
        self._log_tails = log_tails
        self._journal = journal
        self._backend = backend
        self._registry = registry
        self._usage = UsageMonitor(registry.condition)
        self._clock = monotonic_wall_clock()
        self._projection = Projection(spec)
        self._inbox: asyncio.Queue[_QueuedEvent] = asyncio.Queue()
        self._finish: FinishJob | None = None
        self._since_snapshot = 0
        self._journal_log = LimitedLog()
        self.view = MasterJobView(
            info,
            self._projection,
            journal=journal,
            backend=backend,
            usage=self._usage,
            activity=registry.activity,
            clock=self._clock,
            page_url=page_url,
            post=self._post,
            post_durably=self._post_durably,
        )

    def container_profiles(self) -> list[ContainerProfile]:
        """The profiles of the containers requested so far, in the order of their priorities."""
        return list(self._machine.state.profiles)

    def awaits(self, container: ContainerId) -> bool:
        """Whether the job needs the starter of a container, and it has not called this master."""
        known = self._machine.state.containers.get(container)
        is_needed = known is not None and known.needed
        return is_needed and self._registry.last_heard(container) is None

    # ------------------------------------------------------------------ for starters

    async def report(self, event: StarterRegistered | TaskStarted | TaskExited) -> Order | None:
        """Take a starter's report; returns its order once the report is in the journal.

        The report of a container that the job does not have (any more) changes
        nothing, and so is not written: whoever overheard it could repeat it for ever.
        """
        if event.container not in self._machine.state.containers:
            return None
        if isinstance(event, TaskExited):
            event = msgspec.structs.replace(event, hint=_hint(event))
        try:
            await self._post_durably(event)
        except JournalError:
            if not await self._journal.caught_up(JOURNAL_WAIT_S):
                raise
        return self._order(event.container)

    def note(self, text: str, *, is_warning: bool = False) -> None:
        """Tell the users of the job something that its registry has found."""
        self._post(MessageNoted(text=text, is_warning=is_warning))

    # ------------------------------------------------------------------ recovery and run

    async def recover(self) -> None:
        """Replay the journal of earlier masters. Must be called before :meth:`run`."""
        replay = await self._journal.replay()
        self._restore(replay)
        for container, known in self._machine.state.containers.items():
            order = self._order(container)
            if order is not None:
                state = self._machine.state.tasks[known.task].state
                is_registered = known.registered and state is not TaskState.ALLOCATED
                self._registry.order(container, order, is_registered=is_registered)

    async def run(
        self, backend_gone: str | None = None, kill_requested: KillRequested | None = None
    ) -> None:
        """Run the job until it has ended and nothing of it runs.

        ``backend_gone``: the backend is known to be gone for good, and why.
        ``kill_requested``: a kill that reached no earlier master.
        """
        self._post(MasterStarted(attempt=self._journal.attempt))
        if kill_requested is not None:
            self._post(kill_requested)
        if backend_gone is not None:
            self._post(BackendGone(reason=backend_gone))
        for command in self._machine.commands_to_repeat():
            self._execute(command)
        sources = [
            asyncio.create_task(self._read_backend_events()),
            asyncio.create_task(self._watch_starters()),
            asyncio.create_task(self._watch_programs()),
            asyncio.create_task(self._watch_journal()),
        ]
        # What the backend has already reported is queued before any starter's report: a task may
        # have failed because another one's container was lost while there was no master.
        await asyncio.sleep(0)
        await self._registry.start(self)
        loop = asyncio.create_task(self._loop())
        pending = {loop, *sources}
        try:
            while not loop.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    @property
    def _machine(self) -> Machine:
        return self._projection.machine

    def _restore(self, replay: Replay) -> None:
        for blob in replay.torn:
            log(f"the journal's {blob} is damaged; it held nothing that was acknowledged")
        self._projection.restore(replay.snapshot, ((e.at, e.event) for e in replay.entries))
        self.view.show_events()

    # ------------------------------------------------------------------ the loop

    async def _loop(self) -> None:
        while self._finish is None:
            applied = self._apply(await self._next_batch())
            write_at = self._clock() + BATCH_DELAY_S
            while applied.can_wait and (more := await self._wait_for_events(write_at)):
                applied += self._apply(more)
            durable = await self._record(applied.entries)
            self.view.show_events()
            for command in applied.commands:
                self._execute(command)
            self._backend.report_progress(self._machine.progress)
            for queued in applied.queued:
                self._acknowledge(queued, durable)
            if self._finish is None:
                self.view.advance()
        while not self._inbox.empty():
            self._acknowledge(self._inbox.get_nowait(), durable=True)

    def _apply(self, batch: list[_QueuedEvent]) -> _AppliedBatch:
        applied = _AppliedBatch(batch, [], [])
        for queued in batch:
            at = self._clock()
            applied.entries.append(Entry(at=at, event=queued.event))
            applied.commands.extend(self._projection.apply(queued.event, at))
        return applied

    async def _next_batch(self) -> list[_QueuedEvent]:
        """All queued events, at least one; if none comes before the next deadline, that one's."""
        deadline = self._machine.next_deadline()
        batch = await self._wait_for_events(None if deadline is None else deadline[1])
        due = self._machine.due(self._clock())
        batch.extend([_QueuedEvent(await self._deadline_passed(name), None) for name in due])
        return batch

    async def _wait_for_events(self, until: float | None) -> list[_QueuedEvent]:
        """All queued events; waits for the first one, at the longest ``until`` a time."""
        batch: list[_QueuedEvent] = []
        with contextlib.suppress(asyncio.TimeoutError):
            async with timeout(None if until is None else max(0.0, until - self._clock())):
                batch.append(await self._inbox.get())
        while not self._inbox.empty():
            batch.append(self._inbox.get_nowait())
        return batch

    async def _deadline_passed(self, name: str) -> DeadlinePassed:
        note = ""
        if name == ALLOCATION:
            note = self._backend.headroom_text()
        elif name == RENDEZVOUS and self._journal.last_error is not None:
            note = f"The journal could not be written: {self._journal.last_error}."
        output = await self._last_output() if name in MAY_FAIL_JOB else ""
        return DeadlinePassed(deadline=name, note=note, output=output)

    async def _last_output(self) -> str:
        """What running tasks wrote last; their programs are not stopped yet."""
        if self._log_tails is None:
            return ""
        located = [(task, self.view.log_location(task)) for task in self._machine.running_tasks()]
        return await last_output(
            self._log_tails, [(task, place) for task, place in located if place is not None]
        )

    async def _record(self, entries: list[Entry]) -> bool:
        """Write entries to the journal; returns whether they are durable.

        A disk that fails must not stop the job. The journal keeps such entries
        in order and writes them when the disk allows. Until then the starters
        that reported them are told to try again.
        """
        try:
            await self._journal.append(entries)
        except JournalError as error:
            self._journal_log.write(f"{error}")
            return False
        self._since_snapshot += len(entries)
        if self._since_snapshot >= SNAPSHOT_EVERY:
            self._since_snapshot = 0
            try:
                await self._journal.snapshot(self._projection.snapshot())
            except JournalError as error:
                self._journal_log.write(f"no snapshot was written: {error}")
        return True

    def _acknowledge(self, queued: _QueuedEvent, durable: bool) -> None:
        event = queued.event
        if isinstance(event, ContainerCompleted | LaunchFailed):
            self._registry.forget(event.container)
            if durable:
                self._backend.acknowledge(event.container)
        if queued.durable is None or queued.durable.done():
            return
        if durable:
            queued.durable.set_result(None)
        else:
            queued.durable.set_exception(
                JournalError("the journal cannot be written at the moment")
            )

    # ------------------------------------------------------------------ commands

    def _execute(self, command: AnyCommand) -> None:
        match command:
            case RequestContainer():
                self._backend.request(command)
            case CancelRequest():
                self._backend.cancel(command)
            case LaunchStarter():
                order = self._order(command.container)
                if order is not None:
                    # From now on the registry knows the container, and answers its starter.
                    self._registry.order(command.container, order)
                launch = make_starter_launch(
                    self._spec,
                    self._info.id,
                    self._url,
                    command,
                    self._journal.attempt,
                    user=self._info.user,
                )
                self._backend.launch(launch)
            case ReleaseContainer():
                self._backend.release(command)
            case PublishClusterSpec():
                self._registry.publish(command.spec)
            case RunAttempt() | StopTask():
                self._registry.order(command.container, self._as_order(command))
            case FinishJob():
                self._finish = command

    def _order(self, container: ContainerId) -> Order | None:
        command = self._machine.order(container)
        return None if command is None else self._as_order(command)

    def _as_order(self, command: RunAttempt | StopTask) -> Order:
        task = self._machine.state.tasks[command.task]
        return Order(
            attempt=task.attempt,
            generation=task.generation,
            stop=isinstance(command, StopTask),
            grace_s=command.grace_s,
        )

    # ------------------------------------------------------------------ sources of events

    def _post(self, event: AnyEvent) -> None:
        self._inbox.put_nowait(_QueuedEvent(event, None))

    async def _post_durably(self, event: AnyEvent) -> None:
        """Queue an event; returns once it is in the journal, or at once if the job has ended."""
        if self._finish is not None:
            return
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait(_QueuedEvent(event, durable))
        await durable

    async def _read_backend_events(self) -> None:
        async for event in self._backend.events():
            if isinstance(event, ContainerCompleted):
                # Programs that are stopped or killed report no exit, and so not what they used.
                usage = self._usage.latest(event.container)
                event = msgspec.structs.replace(event, usage=usage)
            self._post(event)

    async def _watch_starters(self) -> None:
        monitor = HeartbeatMonitor(self._spec.timeouts.heartbeat_timeout_s, time.monotonic())
        while True:
            await asyncio.sleep(monitor.interval_s)
            containers = self._machine.state.containers
            for event in monitor.check(time.monotonic(), containers, self._registry.last_heard):
                self._post(event)

    async def _watch_programs(self) -> None:
        idle_s = self._spec.timeouts.idle_s
        monitor = ProgramMonitor(self._machine, self._registry.condition, idle_s)
        while True:
            await asyncio.sleep(PROGRAM_CHECK_S)
            for event in monitor.check(time.monotonic(), self._clock()):
                self._post(event)
            for number, _ in enumerate(self._usage.take(self._machine.state, self._clock())):
                if number % _TASKS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _watch_journal(self) -> None:
        """Tell clients that wait for a change when trouble with the journal begins and ends."""
        before = ""
        while True:
            await asyncio.sleep(_JOURNAL_WATCH_S)
            trouble = self._journal.trouble()
            if trouble != before:
                before = trouble
                self.view.advance()


def _hint(event: TaskExited) -> str:
    """What a user should do about an exit; the code of a starter's own failure says nothing."""
    if event.reason:
        return exit_hint(None, None, event.reason)
    return exit_hint(event.exit_code, event.signal, event.tail)


def monotonic_wall_clock() -> Callable[[], float]:
    """A clock of seconds since 1970 that never steps, as a corrected system time would."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset
