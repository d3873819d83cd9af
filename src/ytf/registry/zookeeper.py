"""The ZooKeeper registry: tasks register in ZooKeeper, and the cluster spec is published there.

The znodes of a job (docs/protocols.md §7; ``specs/registry.py`` makes the paths)::

    {root}/users/{user}/{name}/{job id}                          the cluster spec, persistent
    {root}/users/{user}/{name}/{job id}/components/{container}   one task's port, ephemeral

Starters write the components; this master reads them. It looks only at the znodes of
containers that it has launched and whose registration it waits for, and believes only
what is signed with the job's secret, so others can neither register tasks nor make it
read what they like. That a component is gone means nothing: heartbeats tell
whether a starter lives.

Orders, reports and heartbeats are those of the REST registry. It is also the second
way for everything here: starters that ZooKeeper does not serve in time register with
the master and fetch the cluster spec from it (ADR 23). So a job rides through whatever
happens to ZooKeeper, and its events tell.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from async_timeout import timeout
from kazoo.exceptions import (
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, ZnodeStat

from ytf.journal.writer import JournalError
from ytf.log import LimitedLog, log
from ytf.machine.events import StarterRegistered
from ytf.registry.api import Order, ProgramCondition, ReportSink
from ytf.registry.rest import RestRegistry
from ytf.registry.zookeeper_client import (
    DISCONNECTED,
    end_client,
    explain_unreachable,
    make_client,
)
from ytf.specs.ids import ContainerId, task_id
from ytf.specs.status import ClusterSpec
from ytf.wire.rate_limit import RateLimiter
from ytf.wire.registry_documents import (
    COMPONENTS,
    LONGEST_COMPONENT,
    LONGEST_INSTANCE,
    Instance,
    read_component,
    write_instance,
)
from ytf.wire.signing import Signer

_PAUSE_S = 1.0
"""After a refusal."""
_LOOKS_AT_ONCE = 8
_LOOKS_PER_S = 1
"""How often a znode that others change is looked at: so often at once, then so often a second."""
_TELL_AFTER_S = 5.0
"""How long a connection may be lost before the job's events tell."""
REMOVE_S = 10.0
"""How long the removal of a job's znodes may take. Then ``ytf gc`` does it."""
MOST_CHILDREN = 20_000
"""More znodes of others than this among the components are left to ``ytf gc``."""


class ZooKeeperRegistry:
    """A :class:`~ytf.registry.api.Registry` on ZooKeeper and the master's REST API.

    ``path`` is the job's znode, ``name`` the job's name. It connects at once, and
    again whenever the connection is lost.
    """

    def __init__(
        self,
        rest: RestRegistry,
        *,
        servers: Sequence[str],
        path: str,
        job: str,
        name: str,
        signer: Signer,
    ) -> None:
        self._rest = rest
        self._path = path
        self._job = job
        self._name = name
        self._signer = signer
        self._zk = _Connection(servers)
        self._sink: ReportSink | None = None
        self._spec: ClusterSpec | None = None
        self._spec_changed = asyncio.Event()
        self._started = asyncio.Event()
        self._containers: set[ContainerId] = set()
        self._waits: dict[ContainerId, tuple[int, asyncio.Task[None]]] = {}
        self._looks = RateLimiter(burst=_LOOKS_AT_ONCE, per_s=_LOOKS_PER_S)
        self._work: set[asyncio.Task[None]] = set()
        self._limited_log = LimitedLog()
        self._has_warned = False
        self._has_told_refusal = False

    # The port.

    async def start(self, sink: ReportSink) -> None:
        """Start to take reports, and to look at the znodes of launched containers."""
        self._sink = sink
        await self._rest.start(sink)
        self._started.set()
        self._do(self._keep_instance())
        self._do(self._tell_trouble(sink))

    def publish(self, spec: ClusterSpec) -> None:
        """Publish a cluster spec. A lower revision never replaces a higher one."""
        if self._spec is None or spec.revision > self._spec.revision:
            self._spec = spec
            self._spec_changed.set()
        self._rest.publish(spec)

    def order(self, container: ContainerId, order: Order, *, is_registered: bool = False) -> None:
        """Set the order for the starter of a container, and wait for the attempt to register."""
        self._rest.order(container, order, is_registered=is_registered)
        self._containers.add(container)
        attempt, _ = self._waits.get(container, (0, None))
        attempt = max(attempt, self._rest.registered_attempt(container))
        if not order.stop and attempt < order.attempt:
            self._stop_waiting(container)
            wait = self._do(self._wait_for_component(container, order.attempt))
            self._waits[container] = order.attempt, wait

    def forget(self, container: ContainerId) -> None:
        """Forget a container that has ended, and remove its znode if it is still there."""
        self._rest.forget(container)
        self._stop_waiting(container)
        self._do(self._remove_znode(self._component(container)))

    def last_heard(self, container: ContainerId) -> float | None:
        """When the starter of a container called last, by the monotonic clock; None: never."""
        return self._rest.last_heard(container)

    def condition(self, container: ContainerId) -> ProgramCondition | None:
        """How the program of a container is; None if none runs or its starter never called."""
        return self._rest.condition(container)

    def activity(self, container: ContainerId) -> str:
        """What a starter does while no program runs, in its words; empty if that is not known."""
        return self._rest.activity(container)

    async def remove(self) -> bool:
        """Remove the job's znode and all below it, also what others put there."""
        await self._end_work()
        try:
            async with timeout(REMOVE_S):
                await self._zk.repeat(self._remove_all)
            return True
        except asyncio.TimeoutError:
            why = await asyncio.to_thread(explain_unreachable, self._zk.servers)
            self._log_left(f"ZooKeeper did not answer for {REMOVE_S:g} s ({why})")
        except KazooException as error:
            self._log_left(f"ZooKeeper refuses it: {_named(error)}")
        except Exception as error:
            # No answer of a ZooKeeper is worth the end of a job.
            self._log_left(f"a bug in ytf, please report it: {error!r}")
        return False

    async def close(self) -> None:
        """Answer all waiting starters, take no more reports, and disconnect."""
        await self._rest.close()
        await self._end_work()
        await self._zk.close()

    # Components: what starters write.

    def _component(self, container: ContainerId) -> str:
        return f"{self._path}/{COMPONENTS}/{container}"

    async def _wait_for_component(self, container: ContainerId, attempt: int) -> None:
        path = self._component(container)
        has_changed = False
        await self._started.wait()
        while True:
            changed = asyncio.Event()
            losses = self._zk.losses
            try:
                stat = await self._zk.exists(path, changed)
                if stat is not None and await self._register(container, attempt, stat):
                    return
            except DISCONNECTED:
                await self._zk.connection()
                continue
            except (KazooException, JournalError) as error:
                self._limited_log.write(f"{path}: {_named(error)}")
                await asyncio.sleep(_PAUSE_S)
                continue
            await changed.wait()
            if losses != self._zk.losses:
                continue  # the connection was lost, and all watches with it
            # A starter changes its znode once. What changes more often may be somebody else's:
            # such changes share one limit, of however many znodes they are.
            if has_changed:
                await asyncio.sleep(self._looks.delay_s())
            has_changed = True

    async def _register(self, container: ContainerId, attempt: int, stat: ZnodeStat) -> bool:
        """Take a registration; False if the znode does not hold the one that is waited for."""
        if self._rest.registered_attempt(container) >= attempt:
            return True  # by REST, while ZooKeeper was unavailable
        component = None
        if stat.dataLength <= LONGEST_COMPONENT:
            try:
                data = await self._zk.get(self._component(container))
            except NoNodeError:
                return False
            component = read_component(
                data, job=self._job, container=container, signer=self._signer
            )
        if component is None:
            self._report_unsigned(container)
            return False
        if component.attempt != attempt or self._sink is None:
            return False
        event = StarterRegistered(
            task=task_id(component.group, component.index),
            attempt=attempt,
            container=container,
            host=component.host,
            port=component.port,
            control=component.control,
        )
        order = await self._sink.report(event)
        if order is not None:
            self._rest.order(container, order)
            self._rest.note_registered(container, attempt)
        return True

    def _report_unsigned(self, container: ContainerId) -> None:
        self._limited_log.write(f"{self._component(container)} is not signed with the job's secret")
        if not self._has_warned and self._sink is not None:
            self._has_warned = True
            self._sink.note(
                f"Somebody else writes to the job's znodes in ZooKeeper, below {self._path}: what "
                "is not signed with the job's secret is ignored",
                is_warning=True,
            )

    def _stop_waiting(self, container: ContainerId) -> None:
        _, wait = self._waits.pop(container, (0, None))
        if wait is not None:
            wait.cancel()

    # The instance: what this master writes.

    async def _keep_instance(self) -> None:
        """Make the job's znodes, write each cluster spec, and again if others change it."""
        limiter = RateLimiter(burst=_LOOKS_AT_ONCE, per_s=_LOOKS_PER_S)
        while True:
            self._spec_changed.clear()
            changed = asyncio.Event()
            try:
                await self._write_instance(changed)
            except DISCONNECTED:
                await self._zk.connection()
                continue
            except KazooException as error:
                self._tell_refusal(error)
                await asyncio.sleep(_PAUSE_S)
                continue
            if await _first_of(self._spec_changed, changed) is changed:
                await asyncio.sleep(limiter.delay_s())

    def _tell_refusal(self, error: KazooException) -> None:
        self._limited_log.write(f"{self._path}: ZooKeeper refuses it: {_named(error)}")
        # Of what lasts: that somebody has removed a node meanwhile passes by itself.
        lasts = isinstance(error, NoAuthError)
        if lasts and not self._has_told_refusal and self._sink is not None:
            self._has_told_refusal = True
            self._sink.note(
                f"ZooKeeper refuses what the master writes to {self._path} ({_named(error)}): "
                "tasks register with the master, and other readers of the registry find nothing "
                "new",
                is_warning=True,
            )

    async def _write_instance(self, changed: asyncio.Event) -> None:
        """Give the job's znode its data; ``changed`` is set when it may have other data."""
        data = self._instance_data()
        with contextlib.suppress(NodeExistsError):
            await self._zk.call("create", f"{self._path}/{COMPONENTS}", b"", makepath=True)
        if data is None:
            return
        # Before the look at its data, so that no change comes between. Our own is looked at, too.
        stat = await self._zk.exists(self._path, changed)
        # Its length first: others may have put much there.
        has_length = stat is not None and stat.dataLength == len(data)
        if not has_length or await self._zk.get(self._path) != data:
            await self._zk.call("set", self._path, data)

    def _instance_data(self) -> bytes | None:
        spec = self._spec
        if spec is None:
            return None
        members = {group: list(hosts) for group, hosts in spec.members.items()}
        instance = Instance(spec.generation, spec.revision, members)
        data = write_instance(instance, job=self._job, name=self._name, signer=self._signer)
        if len(data) <= LONGEST_INSTANCE:
            return data
        self._limited_log.write(
            f"the cluster spec has {len(data)} bytes, more than a znode in ZooKeeper may have; "
            "starters get it from the master"
        )
        return None

    # The end.

    async def _remove_all(self) -> None:
        components = f"{self._path}/{COMPONENTS}"
        try:
            await self._remove_znode(components)
        except NotEmptyError:
            # Starters that were killed: their sessions live on. Or somebody else.
            await asyncio.gather(
                *(self._remove_znode(self._component(each)) for each in self._containers)
            )
            await self._remove_others(components)
            await self._remove_znode(components)
        await self._remove_znode(self._path)
        # That of the job's name, which other jobs may have.
        with contextlib.suppress(NotEmptyError):
            await self._remove_znode(self._path.rpartition("/")[0])

    async def _remove_others(self, components: str) -> None:
        """Remove what no order of this master led to, if it is not much."""
        stat = await self._zk.exists(components)
        if stat is None or not stat.numChildren:
            return
        if stat.numChildren > MOST_CHILDREN:
            raise NotEmptyError(f"somebody else has put {stat.numChildren} znodes there")
        try:
            children = await self._zk.call("get_children", components)
        except DISCONNECTED as error:
            # It may be longer than we read (LONGEST_FRAME), and would be so again.
            raise NotEmptyError(
                f"somebody else has put {stat.numChildren} znodes there, "
                f"and reading their names ended with {_named(error)}"
            ) from error
        for child in children:
            await self._remove_znode(f"{components}/{child}")

    async def _remove_znode(self, path: str) -> None:
        with contextlib.suppress(NoNodeError):
            await self._zk.call("delete", path)

    def _log_left(self, why: str) -> None:
        log(f"{self._path} is left in ZooKeeper, and `ytf gc` removes it: {why}")

    # Work beside the master's.

    async def _tell_trouble(self, sink: ReportSink) -> None:
        """Tell the users of the job when ZooKeeper is lost for long, and when it is back."""
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                async with timeout(_TELL_AFTER_S):
                    await self._zk.connection()
                await self._zk.lost()
                continue
            why = await asyncio.to_thread(explain_unreachable, self._zk.servers)
            sink.note(
                f"ZooKeeper cannot be reached ({why}); until it can, tasks register with the "
                "master, and other readers of the registry find nothing new"
            )
            await self._zk.connection()
            sink.note("ZooKeeper can be reached again")

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._note_end)
        return task

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, KazooException | KazooTimeoutError):
            self._limited_log.write(f"ZooKeeper: {_named(error)}")
        elif error is not None:
            # Starters still have the second way.
            self._limited_log.write(f"a bug in ytf, please report it: {error!r}")

    async def _end_work(self) -> None:
        self._waits.clear()
        tasks = list(self._work)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Connection:
    """ZooKeeper for an event loop: kazoo's threads, and its results as awaitables."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = servers
        self.losses = 0
        """How often the connection was lost; watches end with it, and tell so."""
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self._client = make_client(servers)
        self._client.add_listener(self._on_state)
        self._client.start_async()

    async def connection(self) -> None:
        """Return as soon as there is a connection."""
        await self._connected.wait()

    async def lost(self) -> None:
        """Return as soon as there is none."""
        await self._lost.wait()

    async def call(self, name: str, *arguments: object, **more: object) -> Any:
        """Call a method of the client; raises what it raises, one of ``DISCONNECTED`` too."""
        result: asyncio.Future[Any] = self._loop.create_future()
        getattr(self._client, f"{name}_async")(*arguments, **more).rawlink(
            lambda done: self._in_loop(lambda: _settle(result, done))
        )
        return await result

    async def repeat(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something that may be done twice, until it was done with no connection lost."""
        while True:
            await self.connection()
            with contextlib.suppress(*DISCONNECTED):
                await work()
                return
            await asyncio.sleep(0.1)

    async def exists(self, path: str, changed: asyncio.Event | None = None) -> ZnodeStat | None:
        """What a znode is; ``changed`` is set when that changes, or the connection is lost."""
        wake = None if changed is None else partial(self._in_loop, changed.set)
        watch = None if wake is None else lambda _: wake()
        found: ZnodeStat | None = await self.call("exists", path, watch=watch)
        return found

    async def get(self, path: str) -> bytes:
        """The data of a znode."""
        data, _ = await self.call("get", path)
        return bytes(data)

    async def close(self) -> None:
        """End the session. Nothing is awaited any more."""
        await asyncio.to_thread(end_client, self._client)

    def _on_state(self, state: KazooState) -> None:
        is_connected = state == KazooState.CONNECTED
        self._in_loop(lambda: self._note(is_connected))

    def _note(self, is_connected: bool) -> None:
        now, before = self._connected, self._lost
        if not is_connected:
            self.losses += 1
            now, before = before, now
        now.set()
        before.clear()

    def _in_loop(self, work: Callable[[], object]) -> None:
        # kazoo's threads may have something to tell after the end of the loop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)


def _settle(result: asyncio.Future[Any], done: Any) -> None:
    if result.done():
        return
    error = done.exception
    if error is not None:
        result.set_exception(error)
    else:
        result.set_result(done.value)


async def _first_of(*events: asyncio.Event) -> asyncio.Event:
    """The first of these events that is set."""
    waits = {asyncio.create_task(event.wait()): event for event in events}
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return next(event for wait, event in waits.items() if wait in done)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".strip()
