"""The master: turns the world into events and the job machine's commands into calls.

One loop takes events in batches: handle them all, write them to the journal,
and only then execute what the machine said and answer who reported. While a
batch is being written the next one gathers, which makes the journal's writes
few however many starters report at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable

import msgspec

from ytf.backends.api import ContainerBackend
from ytf.frameworks.diagnosis import diagnose
from ytf.master.chronicle import Chronicle
from ytf.master.commands import (
    AnyCommand,
    CancelRequest,
    FinishJob,
    LaunchStarter,
    PublishClusterSpec,
    ReleaseContainer,
    RequestContainer,
    RestartTask,
    StopTask,
)
from ytf.master.deadlines import ALLOCATION, RENDEZVOUS
from ytf.master.events import (
    AnyEvent,
    BackendGone,
    ContainerCompleted,
    DeadlinePassed,
    KillRequested,
    LaunchFailed,
    MasterStarted,
    StarterLost,
    StarterRegistered,
    TaskExited,
    TaskStarted,
)
from ytf.master.info import JobInfo
from ytf.master.journal import Journal, JournalError
from ytf.master.launch import make_launch
from ytf.master.machine import Machine
from ytf.master.replay import Replay
from ytf.master.segments import Entry
from ytf.master.view import View
from ytf.registry.api import Order, Registry
from ytf.specs.cluster import ClusterSpec
from ytf.specs.job import JobSpec
from ytf.specs.names import ContainerId, TaskId
from ytf.specs.status import JobEvent, JobRecord, JobStatus, StarterPlace
from ytf.web.tails import LogPlace

SNAPSHOT_EVERY = 2000
GATHER_S = 0.1
"""How long word of a beginning waits for others of its kind, to be written with them at once.

A file in HDFS costs some tens of milliseconds, on machines that are busy with
just these beginnings; and nobody acts on any of them before the last has come.
"""
"""Events between two snapshots: what a new master has at most to replay."""


class _Posted(msgspec.Struct):
    event: AnyEvent
    durable: asyncio.Future[None] | None


class _Taken(msgspec.Struct):
    """Events that the machine has taken in, and what it wants done about them."""

    batch: list[_Posted]
    entries: list[Entry]
    commands: list[AnyCommand]

    def __add__(self, more: _Taken) -> _Taken:
        return _Taken(
            self.batch + more.batch, self.entries + more.entries, self.commands + more.commands
        )

    @property
    def can_wait(self) -> bool:
        """Whether all of it is word of beginnings, and nothing is to be done about it."""
        return not self.commands and all(
            isinstance(posted.event, StarterRegistered | TaskStarted) for posted in self.batch
        )


class Master:
    """Runs one job to its end. Implements the registry's sink and the clients' view.

    ``url`` is where starters and clients find this master, ``page_url`` where
    people find its page; ``clock`` gives seconds since 1970 and never steps back.
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
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._spec = spec
        self._info = info
        self._url = url
        self._page_url = page_url
        self._journal = journal
        self._backend = backend
        self._registry = registry
        self._clock = clock or steady_clock()
        self._chronicle = Chronicle(spec)
        self._story = self._chronicle.story
        self._inbox: asyncio.Queue[_Posted] = asyncio.Queue()
        self._finish: FinishJob | None = None
        self._since_snapshot = 0
        self._view = self._make_view()

    # ------------------------------------------------------------------ for clients

    @property
    def version(self) -> int:
        """Grows whenever the status changes."""
        return self._story.version

    async def changed(self, version: int) -> None:
        """Return once the version is not this one."""
        await self._story.changed(version)

    def status(self) -> JobStatus:
        """How the job and its tasks are now."""
        return self._view.status()

    def cluster_spec(self) -> ClusterSpec | None:
        """Who is where, once everyone is known."""
        return self._view.cluster_spec()

    def events(self) -> list[JobEvent]:
        """The job's story so far."""
        return self._story.events

    def waits_for(self) -> str:
        """What the job waits for now."""
        return self._view.waits_for(self._backend.supply(), self._clock())

    def log_place(self, task: TaskId) -> LogPlace | None:
        """Where a task's newest attempt writes."""
        return self._view.log_place(task)

    def record(self) -> JobRecord:
        """All that stays of the job."""
        return self._view.record()

    def starters(self) -> list[StarterPlace]:
        """Where the starters listen that have registered and not ended."""
        return self._view.starters()

    def tell_end(self) -> None:
        """Let clients who wait know that the job is over; its record is kept by now."""
        self._story.touch()

    async def kill(self, by: str, reason: str) -> None:
        """End the job; returns once the wish is durable."""
        await self._post_durably(KillRequested(by=by, reason=reason))

    # ------------------------------------------------------------------ for starters

    async def report(self, event: StarterRegistered | TaskStarted | TaskExited) -> Order | None:
        """Take a report in; answers the starter's order once the report is durable."""
        if isinstance(event, TaskExited):
            hint = diagnose(event.exit_code, event.signal, event.tail)
            event = msgspec.structs.replace(event, hint=hint)
        await self._post_durably(event)
        return self._order(event.container)

    # ------------------------------------------------------------------ life

    async def recover(self) -> None:
        """Replay what earlier masters recorded. Must come before :meth:`run`."""
        replay = await self._journal.replay()
        self._restore(replay)
        for container in self._machine.memory.containers:
            order = self._order(container)
            if order is not None:
                self._registry.order(container, order)

    async def run(self, bury: str | None = None, killed: KillRequested | None = None) -> None:
        """From taking over until the job is over and nothing of it runs.

        ``bury``: the backend is known to be gone for good, and why. ``killed``:
        somebody wants the job's end and could tell no earlier master.
        """
        self._post(MasterStarted(attempt=self._journal.attempt))
        if killed is not None:
            self._post(killed)
        if bury is not None:
            self._post(BackendGone(reason=bury))
        for command in self._machine.resume():
            self._execute(command)
        await self._registry.start(self)
        pumps = [
            asyncio.create_task(self._pump_backend()),
            asyncio.create_task(self._watch_starters()),
        ]
        loop = asyncio.create_task(self._loop())
        pending = {loop, *pumps}
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
        return self._chronicle.machine

    def _restore(self, replay: Replay) -> None:
        for blob in replay.torn:
            log(f"the journal's {blob} is damaged; it held nothing that was acknowledged")
        self._chronicle.restore(replay)
        self._view = self._make_view()

    def _make_view(self) -> View:
        return View(
            self._info,
            self._machine,
            self._story,
            log_url=self._backend.log_url,
            page_url=self._page_url,
        )

    # ------------------------------------------------------------------ the loop

    async def _loop(self) -> None:
        while self._finish is None:
            taken = self._take_in(await self._next_batch())
            gathered_at = self._clock() + GATHER_S
            while taken.can_wait and (more := await self._more(gathered_at)):
                taken += self._take_in(more)
            durable = await self._record(taken.entries)
            for command in taken.commands:
                self._execute(command)
            self._backend.progress(self._machine.progress)
            for posted in taken.batch:
                self._settle(posted, durable)
            if self._finish is None:
                self._story.touch()
        while not self._inbox.empty():
            self._settle(self._inbox.get_nowait(), durable=True)

    def _take_in(self, batch: list[_Posted]) -> _Taken:
        taken = _Taken(batch, [], [])
        for posted in batch:
            at = self._clock()
            taken.entries.append(Entry(at=at, event=posted.event))
            taken.commands.extend(self._chronicle.take_in(posted.event, at))
        return taken

    async def _next_batch(self) -> list[_Posted]:
        """All events that wait; at least one, a deadline's if nothing else comes before it."""
        deadline = self._machine.next_deadline()
        batch = await self._more(None if deadline is None else deadline[1])
        due = self._machine.due(self._clock())
        batch.extend(_Posted(self._deadline_passed(name), None) for name in due)
        return batch

    async def _more(self, until: float | None) -> list[_Posted]:
        """All events that wait; at least one, unless none comes until a time."""
        batch: list[_Posted] = []
        with contextlib.suppress(asyncio.TimeoutError):
            timeout = None if until is None else max(0.0, until - self._clock())
            batch.append(await asyncio.wait_for(self._inbox.get(), timeout))
        while not self._inbox.empty():
            batch.append(self._inbox.get_nowait())
        return batch

    def _deadline_passed(self, name: str) -> DeadlinePassed:
        note = ""
        if name == ALLOCATION:
            note = self._backend.supply()
        elif name == RENDEZVOUS and self._journal.last_error is not None:
            note = f"The journal could not be written: {self._journal.last_error}."
        return DeadlinePassed(deadline=name, note=note)

    async def _record(self, entries: list[Entry]) -> bool:
        """Make entries durable; a disk that refuses them must not stop the job.

        Refused entries keep their place and are written when the disk allows;
        whoever relies on their being durable is told that they are not.
        """
        try:
            await self._journal.append(entries)
        except JournalError as error:
            log(f"{error}")
            return False
        self._since_snapshot += len(entries)
        if self._since_snapshot >= SNAPSHOT_EVERY:
            self._since_snapshot = 0
            try:
                await self._journal.snapshot(self._chronicle.snapshot())
            except JournalError as error:
                log(f"no snapshot this time: {error}")
        return True

    def _settle(self, posted: _Posted, durable: bool) -> None:
        event = posted.event
        if isinstance(event, ContainerCompleted | LaunchFailed):
            self._registry.forget(event.container)
            if durable:
                self._backend.acknowledge(event.container)
        if posted.durable is None or posted.durable.done():
            return
        if durable:
            posted.durable.set_result(None)
        else:
            posted.durable.set_exception(JournalError("the journal cannot be written just now"))

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
                    # From now on whatever its starter says counts as a sign of life.
                    self._registry.order(command.container, order)
                launch = make_launch(self._spec, self._info.id, self._url, command)
                self._backend.launch(launch)
            case ReleaseContainer():
                self._backend.release(command)
            case PublishClusterSpec():
                self._registry.publish(command.spec)
            case RestartTask() | StopTask():
                self._registry.order(command.container, self._as_order(command))
            case FinishJob():
                self._finish = command

    def _order(self, container: ContainerId) -> Order | None:
        command = self._machine.order(container)
        return None if command is None else self._as_order(command)

    def _as_order(self, command: RestartTask | StopTask) -> Order:
        task = self._machine.memory.tasks[command.task]
        return Order(
            attempt=task.attempt,
            generation=task.generation,
            stop=isinstance(command, StopTask),
            grace_s=command.grace_s,
        )

    # ------------------------------------------------------------------ sources of events

    def _post(self, event: AnyEvent) -> None:
        self._inbox.put_nowait(_Posted(event, None))

    async def _post_durably(self, event: AnyEvent) -> None:
        """Returns once the event is in the journal; at once if the job is over."""
        if self._finish is not None:
            return
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait(_Posted(event, durable))
        await durable

    async def _pump_backend(self) -> None:
        async for event in self._backend.events():
            self._post(event)

    async def _watch_starters(self) -> None:
        """Report starters that are silent for too long; a new master gives them time to find it."""
        limit_s = self._spec.timeouts.heartbeat_s
        pause_s = limit_s / 5
        began = last = time.monotonic()
        while True:
            await asyncio.sleep(pause_s)
            now = time.monotonic()
            if now - last > 2 * pause_s:
                # It is this master that was away (stopped, frozen, starved): nobody could call.
                began = now
            last = now
            for container_id, container in list(self._machine.memory.containers.items()):
                if not container.registered or container.stopping or not container.wanted:
                    continue
                heard = self._registry.last_heard(container_id)
                silent_s = now - max(began, heard or began)
                if silent_s > limit_s:
                    self._post(StarterLost(container=container_id, silent_s=silent_s))


def steady_clock() -> Callable[[], float]:
    """Seconds since 1970, as of now and then steadily: no step of the clock can pass a deadline."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


def log(text: str) -> None:
    """One line in the master's own log."""
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} master: {text}\n"
    # On a full disk the line is lost, and the job goes on.
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "backslashreplace"))
