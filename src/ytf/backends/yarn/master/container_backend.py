"""The ContainerBackend of YARN: heartbeats to the ResourceManager, launches at the nodes.

One asyncio task sends the heartbeats. Each carries what has changed since the last
one, and its answer brings allocated and completed containers. Heartbeats are quick
while requests are outstanding and slow otherwise. Each launch and each stop is an
asyncio task of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from urllib.parse import urlsplit

from async_timeout import timeout

from ytf.backends.api import EmptyRegistry, StarterLaunch, nothing_published
from ytf.backends.yarn.container_requests import (
    NodeNamer,
    YarnProfile,
    without_gpus,
    yarn_profile,
)
from ytf.backends.yarn.hdfs_layout import (
    RECORD_RETRY_TOTAL_S,
    STAGING_RETRY_TOTAL_S,
    JobHome,
    retry_hdfs,
)
from ytf.backends.yarn.master.exit_causes import completed_event
from ytf.backends.yarn.master.node_manager_client import Connect, NodeManagerClient, connect_to_node
from ytf.backends.yarn.master.request_table import AllocationMessages, RequestTable
from ytf.backends.yarn.node_log_pages import log_page_url
from ytf.errors import OutcomeUnknownError
from ytf.hadoop.rpc.errors import AttemptNotFoundError, NotRegisteredError
from ytf.hadoop.yarn.allocate_request import AllocateRequest
from ytf.hadoop.yarn.application_master_client import ApplicationMasterClient
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import ContainerId as YarnContainerId
from ytf.hadoop.yarn.ids import NodeId as YarnNodeId
from ytf.hadoop.yarn.records import (
    AllocateResponse,
    Container,
    FinalApplicationStatus,
    MasterCommand,
    NodeReport,
    NodeState,
    RegisterResponse,
    Resource,
)
from ytf.log import log
from ytf.machine.commands import CancelRequest, ContainerProfile, ReleaseContainer, RequestContainer
from ytf.machine.events import (
    BackendEvent,
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    ContainersRecovered,
    LaunchFailed,
    MessageNoted,
    NodeLost,
    RequestRefused,
)
from ytf.specs.ids import ContainerId, NodeId, TaskId
from ytf.specs.status import FinalStatus, JobRecord, JobStatus

QUICK_HEARTBEAT_S = 0.1
SLOW_HEARTBEAT_S = 1.0
_FINISH_PAUSE_S = 0.05
RELAX_AFTER_HEARTBEATS = 30
"""Heartbeats without a container of a profile, after which its named hosts count as full."""
QUICK_HEARTBEATS = 100
"""After so many heartbeats without a container the job waits for other jobs to end: heartbeats
become slow, to keep the load on the ResourceManager low."""

MakeContext = Callable[[StarterLaunch], ContainerLaunchContext]
"""Makes the context with which a node launches a starter."""
SignMaster = Callable[[str, int], str]
"""Signs a master's URL and attempt with the job's secret."""


class _Launch:
    """A launch under way: it waits until its node takes another call, or it was sent."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.is_sent = False

    def note_sent(self) -> None:
        self.is_sent = True

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def ended(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])


class YarnContainerBackend:
    """Implements ``ContainerBackend`` for one application attempt.

    ``nodes`` are those of the cluster at the start, which requests can name;
    ``name_of`` maps them to the scheduler's names, ``scheme`` is that of their web
    pages. The job's record is written to ``home``, and its staging directory is
    removed at the end. A later attempt writes its address there, signed.
    """

    def __init__(
        self,
        protocol: ApplicationMasterClient,
        *,
        user: str,
        nodes: Sequence[NodeReport],
        name_of: NodeNamer,
        make_context: MakeContext,
        home: JobHome,
        sign_master: SignMaster,
        scheme: str = "http",
        gpus_per_node: int | None = None,
        connect: Connect = connect_to_node,
    ) -> None:
        self._protocol = protocol
        self._user = user
        self._nodes = {node.node: node for node in nodes}
        self._name_of = name_of
        self._make_context = make_context
        self._home = home
        self._sign_master = sign_master
        self._scheme = scheme
        self._gpus_per_node = gpus_per_node
        self._node_managers = NodeManagerClient(connect)
        self._tracking_url = ""
        self._maximum = Resource()
        self._queue = ""
        self._headroom: Resource | None = None
        self._progress = 0.0
        self._requests = RequestTable()
        self._messages = AllocationMessages()
        self._events: asyncio.Queue[BackendEvent | asyncio.Task[None]] = asyncio.Queue()
        self._containers: dict[ContainerId, Container] = {}
        self._launched: set[ContainerId] = set()
        self._held: set[ContainerId] = set()
        self._releases: list[YarnContainerId] = []
        self._hosts_are_stale = False
        self._avoid: frozenset[str] = frozenset()
        self._avoided: frozenset[str] = frozenset()
        self._work: set[asyncio.Task[None]] = set()
        self._launches: dict[ContainerId, _Launch] = {}
        self._wake = asyncio.Event()
        self._heartbeats: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ ContainerBackend

    async def start(
        self, attempt: int, tracking_url: str, profiles: Sequence[ContainerProfile]
    ) -> None:
        """Register with the ResourceManager, and start the heartbeats.

        A later attempt returns after its first heartbeat. Its answer tells which containers
        were lost with the attempt before: the job must know that before it hears from the
        tasks that failed because of it.
        """
        self._requests = RequestTable(
            (yarn_profile(p, i) for i, p in enumerate(profiles, 1)),
            gpus_per_node=self._gpus_per_node,
        )
        self._tracking_url = tracking_url
        registration = await self._register()
        if attempt > 1:
            self._recovered(registration.previous_containers)
            self._handle(await self._allocate(AllocateRequest()))
            self._do(self._write_master(attempt, tracking_url))
        self._heartbeats = asyncio.create_task(self._send_heartbeats())
        self._heartbeats.add_done_callback(self._events.put_nowait)

    async def events(self) -> AsyncIterator[BackendEvent]:
        """The backend's events, until :meth:`finish`.

        Raises the error that ended the heartbeats, if any: without them this attempt
        is over, and the ResourceManager starts another. It also raises what a bug of
        ours raised in a launch or a stop, which would go unnoticed otherwise.
        """
        while not isinstance(event := await self._events.get(), asyncio.Task):
            yield event
        if not event.cancelled():
            event.result()

    def acknowledge(self, container: ContainerId) -> None:
        """Does nothing: the ResourceManager itself reports completions to a new attempt."""

    def request(self, command: RequestContainer) -> None:
        """Request one container with the next heartbeat."""
        profile = yarn_profile(command.profile, command.priority)
        reason = self._why_impossible(profile)
        if reason:
            self._events.put_nowait(RequestRefused(request=command.request, reason=reason))
            return
        self._requests.add(command.request, profile)
        self._messages.requested(profile)
        self._hosts_are_stale = True
        # With more than a third of the nodes on the list the job is at fault, not the nodes.
        avoid = command.avoid if len(command.avoid) * 3 <= len(self._nodes) else ()
        self._avoid = frozenset(self._name_of(YarnNodeId.parse(node)) for node in avoid)
        self._wake.set()

    def cancel(self, command: CancelRequest) -> None:
        """Take a request back with the next heartbeat."""
        self._requests.cancel(command.request)
        self._wake.set()

    def launch(self, launch: StarterLaunch) -> None:
        """Launch a starter at the container's node."""
        container = self._containers.get(launch.container)
        if container is not None and launch.container not in self._launched:
            self._launched.add(launch.container)
            begun = self._launches[launch.container] = _Launch()
            begun.task = self._do(self._start(container, launch, begun))

    def release(self, command: ReleaseContainer) -> None:
        """Kill and give back a container."""
        container = self._containers.get(command.container)
        if container is None:
            return
        self._releases.append(container.id)
        launch = self._launches.get(command.container)
        if launch is not None and not launch.is_sent:
            del self._launches[command.container]
            launch.cancel()
            self._events.put_nowait(
                ContainerCompleted(container=command.container, cause=Cause.RELEASED)
            )
        elif command.container in self._launched:
            self._do(self._stop(container, launch))
        self._wake.set()

    def log_url(self, task: TaskId, attempt: int, container: ContainerId) -> str | None:
        """The node's page of the container's logs."""
        known = self._containers.get(container)
        if known is None:
            return None
        return log_page_url(self._scheme, known.node_http_address, container, self._user)

    def report_progress(self, share: float) -> None:
        """The ResourceManager shows it from the next heartbeat on."""
        self._progress = share

    def headroom_text(self) -> str:
        """The queue's headroom for this job in the last heartbeat's answer."""
        if self._headroom is None:
            return ""
        return f"The queue {self._queue} has {self._headroom} left for this job."

    async def finish(
        self, record: JobRecord, empty_registry: EmptyRegistry = nothing_published
    ) -> bool:
        """Write the record, unregister, empty the registry, and remove the staging directory.

        If HDFS stays unavailable, or the registry cannot be emptied, the job ends all the
        same: then the ``gc`` of a later ``ytf`` command does what is left, and removes the
        staging directory.
        """
        # Heartbeats go on meanwhile: this attempt must not count as dead.
        is_written = await self._write_record(record)
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
        if self._work:
            _, unfinished = await asyncio.wait(self._work, timeout=5.0)
            for task in unfinished:
                task.cancel()
        status = {
            FinalStatus.SUCCEEDED: FinalApplicationStatus.SUCCEEDED,
            FinalStatus.FAILED: FinalApplicationStatus.FAILED,
            FinalStatus.KILLED: FinalApplicationStatus.KILLED,
        }[record.status.final_status or FinalStatus.FAILED]
        await self._unregister(status, _final_diagnostics(record.status))
        await asyncio.gather(self._protocol.close(), self._node_managers.close())
        # How the job has ended is settled now, whatever happens to this process meanwhile.
        is_emptied = await empty_registry()
        # Last: a further attempt would need it, and after unregistering there is none.
        if is_written and is_emptied:
            await self._remove_staging()
        return is_written

    async def _write_record(self, record: JobRecord) -> bool:
        try:
            await retry_hdfs(lambda: self._home.write_record(record), RECORD_RETRY_TOTAL_S)
        except OSError as error:
            log(f"the job ends without a record, and its staging directory stays: {error}")
            return False
        return True

    async def _write_master(self, attempt: int, url: str) -> None:
        """Write where this master is, for starters that it cannot reach (docs/adr/0019).

        The starters of the first attempt need no such file: they were launched with its address.
        """
        signature = self._sign_master(url, attempt)
        try:
            await retry_hdfs(lambda: self._home.write_master(attempt, url, signature))
        except OSError as error:
            log(f"starters cannot look for this master: {error}")

    async def _remove_staging(self) -> None:
        try:
            await retry_hdfs(self._home.remove_staging, STAGING_RETRY_TOTAL_S)
        except OSError as error:
            log(f"the staging directory stays: {error}")

    # ------------------------------------------------------------------ the ResourceManager

    async def _register(self) -> RegisterResponse:
        address = urlsplit(self._tracking_url)
        registration = await self._protocol.register(
            address.hostname or "", address.port or -1, self._tracking_url
        )
        self._maximum, self._queue = registration.maximum, registration.queue
        self._node_managers.use_tokens(registration.node_tokens)
        return registration

    async def _unregister(self, status: FinalApplicationStatus, diagnostics: str) -> None:
        while True:
            try:
                if await self._protocol.finish(status, diagnostics, ""):
                    return
            except NotRegisteredError:
                await self._register()
            await asyncio.sleep(_FINISH_PAUSE_S)

    async def _send_heartbeats(self) -> None:
        fruitless = 0
        while True:
            # Cleared first: requests that come from now on are for the next heartbeat.
            self._wake.clear()
            allocation = await self._allocate(self._next_heartbeat())
            self._handle(allocation)
            self._send_messages()
            waiting = self._requests.outstanding > 0
            fruitless = 0 if allocation.allocated or not waiting else fruitless + 1
            self._requests.heartbeat_passed(RELAX_AFTER_HEARTBEATS)
            if self._gpus_per_node is not None:
                # GPUs that were reserved for one profile may be another's now.
                self._hosts_are_stale |= waiting
            # At full progress the job waits for its containers to end.
            is_expecting = waiting or self._progress >= 1.0
            quick = is_expecting and fruitless < QUICK_HEARTBEATS
            await _wait(self._wake, QUICK_HEARTBEAT_S if quick else SLOW_HEARTBEAT_S)

    def _next_heartbeat(self) -> AllocateRequest:
        if self._hosts_are_stale:
            self._hosts_are_stale = False
            self._requests.choose_hosts(tuple(self._nodes.values()), self._name_of, self._avoid)
        releases, self._releases = tuple(self._releases), []
        added, removed = self._avoid - self._avoided, self._avoided - self._avoid
        self._avoided = self._avoid
        return AllocateRequest(
            asks=tuple(self._requests.changes()),
            releases=releases,
            blacklist_additions=tuple(sorted(added)),
            blacklist_removals=tuple(sorted(removed)),
            progress=self._progress,
        )

    async def _allocate(self, beat: AllocateRequest) -> AllocateResponse:
        try:
            return _checked(await self._protocol.allocate(beat))
        except OutcomeUnknownError:
            # The same heartbeat again: the ResourceManager recognizes it by its number.
            return await self._allocate(beat)
        except NotRegisteredError:
            # The ResourceManager has lost its state: send everything again.
            registration = await self._register()
            self._recovered(registration.previous_containers)
            everything = AllocateRequest(
                asks=tuple(self._requests.everything()),
                releases=beat.releases,
                blacklist_additions=tuple(sorted(self._avoid)),
                progress=self._progress,
            )
            return await self._allocate(everything)

    def _handle(self, allocation: AllocateResponse) -> None:
        self._headroom = allocation.headroom
        self._node_managers.use_tokens(allocation.node_tokens)
        for container in allocation.allocated:
            self._allocated(container)
        if allocation.previous_containers:
            self._recovered(allocation.previous_containers)
        for status in allocation.completed:
            name = ContainerId(str(status.container))
            self._events.put_nowait(completed_event(status, launched=name in self._launched))
            self._launched.discard(name)
            self._container_ended(name)
        for node in allocation.updated_nodes:
            self._node_changed(node)

    def _allocated(self, container: Container) -> None:
        request = self._requests.allocated(container.priority, self._name_of(container.node))
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
                self._requests.recovered(container.priority, self._name_of(container.node))
        names = tuple(ContainerId(str(c.id)) for c in containers)
        self._events.put_nowait(ContainersRecovered(containers=names, complete=False))

    def _container_ended(self, name: ContainerId) -> None:
        container = self._containers.get(name)
        if container is not None and name in self._held:
            self._held.remove(name)
            self._requests.completed(container.priority, self._name_of(container.node))
            # Another request may wait for its place.
            self._hosts_are_stale = True

    def _node_changed(self, node: NodeReport) -> None:
        if node.state in (NodeState.LOST, NodeState.DECOMMISSIONED, NodeState.SHUTDOWN):
            self._events.put_nowait(NodeLost(node=NodeId(str(node.node))))
        if not node.state.usable:
            self._nodes.pop(node.node, None)
        elif node.node not in self._nodes:
            self._nodes[node.node] = node
        self._hosts_are_stale = True

    def _why_impossible(self, profile: YarnProfile) -> str:
        """Why YARN can never allocate a container of a profile; empty if it can."""
        asked = profile.resource
        if self._gpus_per_node is not None:
            asked = without_gpus(asked)
        excess = asked.excess_over(self._maximum)
        if excess:
            amounts = ", ".join(f"{w} {name} (at most {t})" for name, (w, t) in excess.items())
            return f"a task of {profile.group} asks for more than a container may have: {amounts}"
        return ""

    def _send_messages(self) -> None:
        """Report news of the allocation to the users."""
        now = asyncio.get_running_loop().time()
        waiting = self._messages.waiting(self._requests, len(self._held), self.headroom_text(), now)
        if waiting:
            self._events.put_nowait(MessageNoted(text=waiting, is_waiting=True))
        for text in self._messages.shared_nodes(self._requests):
            self._events.put_nowait(MessageNoted(text=text))

    # ------------------------------------------------------------------ the nodes

    async def _start(self, container: Container, launch: StarterLaunch, begun: _Launch) -> None:
        try:
            context = self._make_context(launch)
            reason = await self._node_managers.start(container, context, begun.note_sent)
        finally:
            self._launches.pop(launch.container, None)
        if reason:
            # Also where a node did not answer: it may not have received the stop either.
            self._releases.append(container.id)
            self._events.put_nowait(LaunchFailed(container=launch.container, reason=reason))
            self._wake.set()

    async def _stop(self, container: Container, launch: _Launch | None) -> None:
        if launch is not None:
            # A stop that overtakes the start would find nothing to stop.
            await launch.ended()
        if await self._node_managers.stop(container):
            known = ContainerId(str(container.id))
            self._events.put_nowait(ContainerCompleted(container=known, cause=Cause.RELEASED))

    def _do(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._events.put_nowait(task)


def _final_diagnostics(status: JobStatus) -> str:
    """The diagnostics on YARN's own page of the application, to which its link leads now."""
    more = " · ".join(f"ytf {command} {status.id}" for command in ("status", "logs", "events"))
    return f"{status.diagnostics}\nMore: {more}".lstrip()


def _checked(allocation: AllocateResponse) -> AllocateResponse:
    """The allocation. Raises for the commands that older ResourceManagers use as exceptions."""
    if allocation.command is MasterCommand.RESYNC:
        raise NotRegisteredError("the ResourceManager wants this master to register again")
    if allocation.command is MasterCommand.SHUTDOWN:
        raise AttemptNotFoundError("the ResourceManager has ended this attempt")
    return allocation


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        async with timeout(timeout_s):
            await event.wait()
