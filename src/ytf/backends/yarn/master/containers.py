"""YARN as the master sees it: heartbeats to the ResourceManager, starts at the nodes.

One task beats: it carries what has changed since the last beat, and brings back
what happened. Beats are quick while something is wished for and slow otherwise.
Launches and stops go to the nodes in tasks of their own, one node at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from urllib.parse import urlsplit

from ytf.backends.api import Launch
from ytf.backends.yarn.home import JobHome
from ytf.backends.yarn.kinds import resource_of
from ytf.backends.yarn.ledger import Kind, Ledger
from ytf.backends.yarn.master.causes import completion
from ytf.backends.yarn.master.lines import Connect, NodeLines, node_line
from ytf.backends.yarn.master.patience import patiently
from ytf.backends.yarn.master.telling import Teller
from ytf.backends.yarn.nodes import NameOf, log_page
from ytf.errors import OutcomeUnknownError
from ytf.hadoop.rpc.errors import AttemptNotFoundError, NotRegisteredError
from ytf.hadoop.yarn.asks import Beat
from ytf.hadoop.yarn.ids import ContainerId as YarnContainerId
from ytf.hadoop.yarn.ids import NodeId as YarnNodeId
from ytf.hadoop.yarn.launch import LaunchContext
from ytf.hadoop.yarn.master import MasterProtocol
from ytf.hadoop.yarn.records import (
    Allocation,
    Container,
    MasterCommand,
    NodeReport,
    NodeState,
    Registration,
)
from ytf.hadoop.yarn.records import FinalStatus as YarnFinalStatus
from ytf.hadoop.yarn.resources import Resource
from ytf.master.commands import CancelRequest, ReleaseContainer, RequestContainer
from ytf.master.events import (
    BackendEvent,
    BackendNoted,
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    LaunchFailed,
    NodeLost,
    RequestRefused,
)
from ytf.master.service import log
from ytf.specs.names import ContainerId, NodeId, TaskId
from ytf.specs.status import FinalStatus, JobRecord, JobStatus

QUICK_BEAT_S = 0.1
SLOW_BEAT_S = 1.0
_FINISH_PAUSE_S = 0.05
RELAX_AFTER_BEATS = 30
"""Beats that bring nothing of a kind, after which the hosts named for it are taken for full."""
QUICK_BEATS = 100
"""So many, and a job waits for others to end: it must not keep the ResourceManager busy."""

MakeContext = Callable[[Launch], LaunchContext]
"""Makes what a node needs to start a starter."""


class YarnContainers:
    """Implements ``ContainerBackend`` for one application attempt.

    ``kinds`` are all that its tasks may need, in an order that is the same for
    every attempt. ``nodes`` are those of the cluster at the start, for asks by
    host; ``name_of`` tells what the scheduler calls them, ``scheme`` how their
    pages are reached. ``home`` keeps the record, and is tidied up.
    """

    def __init__(
        self,
        protocol: MasterProtocol,
        *,
        user: str,
        kinds: Sequence[Kind],
        nodes: Sequence[NodeReport],
        name_of: NameOf,
        make_context: MakeContext,
        home: JobHome,
        scheme: str = "http",
        connect: Connect = node_line,
    ) -> None:
        self._protocol = protocol
        self._user = user
        self._kinds = {(kind.group, kind.resource): kind for kind in kinds}
        self._nodes = {node.node: node for node in nodes}
        self._name_of = name_of
        self._make_context = make_context
        self._home = home
        self._scheme = scheme
        self._lines = NodeLines(connect)
        self._tracking_url = ""
        self._maximum = Resource()
        self._queue = ""
        self._headroom: Resource | None = None
        self._progress = 0.0
        self._ledger = Ledger(kinds)
        self._teller = Teller()
        self._events: asyncio.Queue[BackendEvent | asyncio.Task[None]] = asyncio.Queue()
        self._containers: dict[ContainerId, Container] = {}
        self._launched: set[ContainerId] = set()
        self._held: set[ContainerId] = set()
        self._releases: list[YarnContainerId] = []
        self._is_new = False
        self._avoid: frozenset[str] = frozenset()
        self._avoided: frozenset[str] = frozenset()
        self._work: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ the port

    async def start(self, attempt: int, tracking_url: str) -> None:
        """Register with the ResourceManager, and begin to beat."""
        self._tracking_url = tracking_url
        registration = await self._register()
        if attempt > 1:
            self._recovered(registration.previous_containers)
        self._beating = asyncio.create_task(self._beat())
        self._beating.add_done_callback(self._events.put_nowait)

    async def events(self) -> AsyncIterator[BackendEvent]:
        """What happens, until :meth:`finish`.

        Raises what ended the heartbeats, should anything: without them this
        attempt is over, and the ResourceManager starts another. So it is with
        a bug of ours in a launch or a stop: nothing else would tell of it.
        """
        while not isinstance(event := await self._events.get(), asyncio.Task):
            yield event
        if not event.cancelled():
            event.result()

    def acknowledge(self, container: ContainerId) -> None:
        """Nothing to do: the ResourceManager tells a new attempt by itself."""

    def request(self, command: RequestContainer) -> None:
        """Ask for one container with the next beat."""
        kind = self._kinds[command.group, resource_of(command.resources)]
        reason = self._impossible(kind)
        if reason:
            self._events.put_nowait(RequestRefused(request=command.request, reason=reason))
            return
        self._ledger.want(command.request, kind)
        self._teller.wished(kind)
        self._is_new = True
        # Advice: with a third of the nodes on the list it is the job that is bad.
        avoid = command.avoid if len(command.avoid) * 3 <= len(self._nodes) else ()
        self._avoid = frozenset(self._name_of(YarnNodeId.parse(node)) for node in avoid)
        self._wake.set()

    def cancel(self, command: CancelRequest) -> None:
        """Take a request back with the next beat."""
        self._ledger.forget(command.request)
        self._wake.set()

    def launch(self, launch: Launch) -> None:
        """Start a starter at the container's node."""
        container = self._containers.get(launch.container)
        if container is not None and launch.container not in self._launched:
            self._launched.add(launch.container)
            self._do(self._start(container, launch))

    def release(self, command: ReleaseContainer) -> None:
        """Kill and give back a container."""
        container = self._containers.get(command.container)
        if container is None:
            return
        self._releases.append(container.id)
        if command.container in self._launched:
            self._do(self._stop(container))
        self._wake.set()

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """The node's page of the container's logs."""
        known = self._containers.get(container)
        if known is None:
            return None
        return log_page(self._scheme, known.node_http_address, container, self._user)

    def progress(self, share: float) -> None:
        """Shown by the ResourceManager from the next beat on."""
        self._progress = share

    def supply(self) -> str:
        """What the queue has left for this job, as the ResourceManager last said."""
        if self._headroom is None:
            return ""
        return f"The queue {self._queue} has {self._headroom} left for this job."

    async def finish(self, record: JobRecord) -> None:
        """Keep the record, unregister, and remove what went with the job.

        The job ends as it did, also if HDFS stays away and nothing can be kept
        or removed: then the next ``ytf`` command's sweep sees to what is staged.
        """
        # Beats go on meanwhile: this attempt must not count as dead.
        is_kept = await self._keep(record)
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        if self._work:
            await asyncio.wait(self._work, timeout=5.0)
        status = {
            FinalStatus.SUCCEEDED: YarnFinalStatus.SUCCEEDED,
            FinalStatus.FAILED: YarnFinalStatus.FAILED,
            FinalStatus.KILLED: YarnFinalStatus.KILLED,
        }[record.status.final_status or FinalStatus.FAILED]
        await self._unregister(status, _last_words(record.status))
        await asyncio.gather(self._protocol.close(), self._lines.close())
        # Last: an attempt after this one would need it, and now there will be none.
        if is_kept:
            await self._remove_staging()

    async def _keep(self, record: JobRecord) -> bool:
        try:
            await patiently(lambda: self._home.keep(record))
        except OSError as error:
            log(f"the job ends without a record, and what was staged stays: {error}")
            return False
        return True

    async def _remove_staging(self) -> None:
        try:
            await asyncio.to_thread(self._home.remove_staging)
        except OSError as error:
            log(f"what was staged stays: {error}")

    # ------------------------------------------------------------------ the ResourceManager

    async def _register(self) -> Registration:
        place = urlsplit(self._tracking_url)
        registration = await self._protocol.register(
            place.hostname or "", place.port or -1, self._tracking_url
        )
        self._maximum, self._queue = registration.maximum, registration.queue
        self._lines.keep(registration.node_tokens)
        return registration

    async def _unregister(self, status: YarnFinalStatus, diagnostics: str) -> None:
        while True:
            try:
                if await self._protocol.finish(status, diagnostics, ""):
                    return
            except NotRegisteredError:
                await self._register()
            await asyncio.sleep(_FINISH_PAUSE_S)

    async def _beat(self) -> None:
        fruitless = 0
        while True:
            # Before looking: what is wished from now on is for the next beat.
            self._wake.clear()
            allocation = await self._allocate(self._next_beat())
            self._take(allocation)
            self._tell()
            waiting = self._ledger.outstanding > 0
            fruitless = 0 if allocation.allocated or not waiting else fruitless + 1
            self._ledger.waited(RELAX_AFTER_BEATS)
            # Once nothing is left to be done, the end of containers is what the job waits for.
            is_expecting = waiting or self._progress >= 1.0
            quick = is_expecting and fruitless < QUICK_BEATS
            await _wait(self._wake, QUICK_BEAT_S if quick else SLOW_BEAT_S)

    def _next_beat(self) -> Beat:
        if self._is_new:
            self._is_new = False
            self._ledger.prefer(tuple(self._nodes.values()), self._name_of, self._avoid)
        releases, self._releases = tuple(self._releases), []
        added, removed = self._avoid - self._avoided, self._avoided - self._avoid
        self._avoided = self._avoid
        return Beat(
            asks=tuple(self._ledger.changes()),
            releases=releases,
            blacklist_additions=tuple(sorted(added)),
            blacklist_removals=tuple(sorted(removed)),
            progress=self._progress,
        )

    async def _allocate(self, beat: Beat) -> Allocation:
        try:
            return _obeyed(await self._protocol.allocate(beat))
        except OutcomeUnknownError:
            # The very same beat again: the ResourceManager knows it by its number.
            return await self._allocate(beat)
        except NotRegisteredError:
            # A ResourceManager that has forgotten: everything is to be said again.
            registration = await self._register()
            self._recovered(registration.previous_containers)
            everything = Beat(
                asks=tuple(self._ledger.everything()),
                releases=beat.releases,
                blacklist_additions=tuple(sorted(self._avoid)),
                progress=self._progress,
            )
            return await self._allocate(everything)

    def _take(self, allocation: Allocation) -> None:
        self._headroom = allocation.headroom
        self._lines.keep(allocation.node_tokens)
        for container in allocation.allocated:
            self._allocated(container)
        if allocation.previous_containers:
            self._recovered(allocation.previous_containers)
        for status in allocation.completed:
            name = ContainerId(str(status.container))
            self._events.put_nowait(completion(status, launched=name in self._launched))
            self._launched.discard(name)
            self._returned(name)
        for node in allocation.updated_nodes:
            self._node_changed(node)

    def _allocated(self, container: Container) -> None:
        request = self._ledger.answered(container.priority, self._name_of(container.node))
        if request is None:
            self._releases.append(container.id)
            return
        known = ContainerId(str(container.id))
        self._containers[known] = container
        self._held.add(known)
        self._events.put_nowait(
            ContainerAllocated(request=request, container=known, node=NodeId(str(container.node)))
        )

    def _recovered(self, containers: Sequence[Container]) -> None:
        for container in containers:
            known = ContainerId(str(container.id))
            self._containers[known] = container
            self._launched.add(known)
            if known not in self._held:
                self._held.add(known)
                self._ledger.inherited(container.priority, self._name_of(container.node))
        names = tuple(ContainerId(str(c.id)) for c in containers)
        self._events.put_nowait(ContainersRecovered(containers=names, complete=False))

    def _returned(self, name: ContainerId) -> None:
        container = self._containers.get(name)
        if container is not None and name in self._held:
            self._held.remove(name)
            self._ledger.returned(container.priority, self._name_of(container.node))
            # Its place may be the one that another wish waits for.
            self._is_new = True

    def _node_changed(self, node: NodeReport) -> None:
        if node.state in (NodeState.LOST, NodeState.DECOMMISSIONED, NodeState.SHUTDOWN):
            self._events.put_nowait(NodeLost(node=NodeId(str(node.node))))
        if not node.state.usable:
            self._nodes.pop(node.node, None)
        elif node.node not in self._nodes:
            self._nodes[node.node] = node
        self._is_new = True

    def _impossible(self, kind: Kind) -> str:
        """Why a kind of container can never be had; empty if it can."""
        excess = kind.resource.excess_over(self._maximum)
        if excess:
            told = ", ".join(f"{w} {name} (at most {t})" for name, (w, t) in excess.items())
            return f"a task of {kind.group} asks for more than a container may have: {told}"
        return ""

    def _tell(self) -> None:
        """Say what people want to know of the allocation, when there is news."""
        now = asyncio.get_running_loop().time()
        waiting = self._teller.waiting(self._ledger, len(self._held), self.supply(), now)
        if waiting:
            self._events.put_nowait(BackendNoted(text=waiting, is_waiting=True))
        for text in self._teller.crowded(self._ledger):
            self._events.put_nowait(BackendNoted(text=text))

    # ------------------------------------------------------------------ the nodes

    async def _start(self, container: Container, launch: Launch) -> None:
        reason = await self._lines.start(container, self._make_context(launch))
        if reason:
            # Also where a node did not answer: it may not have heard that it is to stop either.
            self._releases.append(container.id)
            self._events.put_nowait(LaunchFailed(container=launch.container, reason=reason))
            self._wake.set()

    async def _stop(self, container: Container) -> None:
        if await self._lines.stop(container):
            known = ContainerId(str(container.id))
            self._events.put_nowait(ContainerCompleted(container=known, cause=Cause.RELEASED))

    def _do(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._events.put_nowait(task)


def _last_words(status: JobStatus) -> str:
    """What YARN's own page of the application says, to which its link leads from now on."""
    more = " · ".join(f"ytf {command} {status.id}" for command in ("status", "logs", "events"))
    return f"{status.diagnostics}\nMore: {more}".lstrip()


def _obeyed(allocation: Allocation) -> Allocation:
    """The allocation, unless it is one of the orders that came before there were exceptions."""
    if allocation.command is MasterCommand.RESYNC:
        raise NotRegisteredError("the ResourceManager wants this master to register again")
    if allocation.command is MasterCommand.SHUTDOWN:
        raise AttemptNotFoundError("the ResourceManager has ended this attempt")
    return allocation


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except asyncio.TimeoutError:
        return
