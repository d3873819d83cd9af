"""Keeps the znode of one task in ZooKeeper, and reads the znode of its job.

The task's znode is ephemeral: it ends with the session, and so with the starter.
Others may change or remove both znodes. Then the task's own is put back and the
job's is read again, but znodes are not looked at more often than a ``RateLimiter`` lets it,
and the job's only while somebody waits for what it should hold.
"""

from __future__ import annotations

import os
import select
import threading
import time

from ytf.log import log
from ytf.starter import threads
from ytf.starter.zookeeper_session import (
    NO_NODE,
    NODE_EXISTS,
    ConnectionLostError,
    ZooKeeperError,
    ZooKeeperSession,
)
from ytf.wire.rate_limit import RateLimiter
from ytf.wire.registry_documents import COMPONENTS, LONGEST_INSTANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable, Optional, Sequence, Tuple

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.zookeeper_session import NodeStat

SESSION_S = 30.0
"""How long a session outlives its connection: a server or the whole ensemble may restart."""
CLOSE_S = 2.0
"""How long the end of a session may take."""

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_TROUBLE_AFTER_S = 5.0
"""How long a connection may be lost before that is told."""
_LOOKS_AT_ONCE = 8
_LOOKS_PER_S = 1
"""How often a znode that others change is looked at: so often at once, then so often a second."""
_RETRY_S = 5.0
"""How long to wait after ZooKeeper has refused something."""


class ComponentNode:
    """The znode of one task. A thread does the work; any other may call the methods.

    ``on_instance`` gets the data of the job's znode whenever they have changed, from
    :meth:`watch_instance` until :meth:`ignore_instance`.
    """

    def __init__(
        self,
        servers: Sequence[str],
        instance: str,
        container: str,
        *,
        on_published: Callable[[], None],
        on_instance: Callable[[bytes], None],
    ) -> None:
        self._session = ZooKeeperSession(servers, SESSION_S)
        self._instance = instance
        self._parent = "%s/%s" % (instance, COMPONENTS)
        self._path = "%s/%s" % (self._parent, container)
        self._on_published = on_published
        self._on_instance = on_instance
        self._data: Optional[bytes] = None
        self._published: Optional[bytes] = None
        self._read_at = 0
        self._must_publish = self._must_read = True
        self._is_instance_watched = False
        self._limiter = RateLimiter(burst=_LOOKS_AT_ONCE, per_s=_LOOKS_PER_S)
        self._lost_at = time.monotonic()
        self._trouble = ""
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._ended.set()
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)

    def start(self, inbox: SimpleQueue[InboxMessage]) -> None:
        """Begin to work, until :meth:`close`."""
        self._ended.clear()
        threads.start("zookeeper", self._run, inbox)

    def publish(self, data: bytes) -> None:
        """Give the znode these data, now and whenever it is made again."""
        self._data = data
        self._must_publish = True
        self._wake()

    def watch_instance(self) -> None:
        """Read the job's znode, now and whenever it has changed."""
        self._is_instance_watched = True
        self._must_read = True
        self._wake()

    def ignore_instance(self) -> None:
        """Read the job's znode no more: what others do to it costs nothing from now on."""
        self._is_instance_watched = False

    def close(self) -> None:
        """Remove the znode; returns within seconds, whatever ZooKeeper does."""
        self._closed.set()
        self._wake()
        self._ended.wait(CLOSE_S)

    def _run(self) -> None:
        wait_s = _FIRST_WAIT_S
        try:
            while not self._closed.is_set():
                if self._work_while_connected():
                    wait_s = _FIRST_WAIT_S
                self._closed.wait(wait_s)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
            self._session.close()
        finally:
            self._ended.set()

    def _work_while_connected(self) -> bool:
        """Work for as long as a connection lasts; returns whether there was one."""
        is_connected = False
        try:
            self._session.connect()
            is_connected = True
            self._serve()
        except ConnectionLostError as exc:
            self._session.drop()
            self._note_loss(str(exc))
        return is_connected

    def _wake(self) -> None:
        try:
            os.write(self._waking, b"w")
        except BlockingIOError:
            return  # it has been woken often, and has not looked yet

    def _serve(self) -> None:
        """Do what there is to do while there is a connection."""
        self._lost_at = 0.0
        self._must_publish = self._must_read = True
        retry_at: Optional[float] = None
        while not self._closed.is_set():
            try:
                if retry_at is None or time.monotonic() >= retry_at:
                    retry_at = None
                    self._work()
            except ZooKeeperError as exc:
                self._must_publish = self._must_read = True
                self._tell_trouble("%s: ZooKeeper refuses it: %s" % (self._path, exc))
                retry_at = time.monotonic() + _RETRY_S
            self._wait(retry_at)

    def _wait(self, retry_at: Optional[float]) -> None:
        """Return when there may be something to do."""
        while not self._closed.is_set():
            # Events may have come between the answers to calls.
            for path in self._session.take_events():
                self._must_read |= path == self._instance
                self._must_publish |= path != self._instance
            wait_s = self._session.keep_alive()
            if retry_at is not None:
                wait_s = min(wait_s, retry_at - time.monotonic())
            elif self._must_publish or self._has_to_read():
                return
            if wait_s <= 0:
                return
            connection = self._session.fileno()
            ready, _, _ = select.select([connection, self._woken], [], [], wait_s)
            if self._woken in ready:
                os.read(self._woken, 4096)
            if connection in ready:
                self._session.receive()

    def _work(self) -> None:
        if self._must_publish:
            self._must_publish = False
            if self._data is not None:
                self._closed.wait(self._limiter.delay_s())
                self._publish(self._data)
        if self._has_to_read():
            self._must_read = False
            self._closed.wait(self._limiter.delay_s())
            self._read_instance()
        self._tell_trouble("")

    def _has_to_read(self) -> bool:
        return self._must_read and self._is_instance_watched

    def _publish(self, data: bytes) -> None:
        # The watch comes first, so that no change of others comes between. Our own is told, too.
        stat = self._session.exists(self._path)
        if self._is_ours(stat) and self._holds(data, stat):
            if self._published != data:
                self._published = data
                self._on_published()
            return
        try:
            self._write(data, stat)
        except ZooKeeperError as exc:
            if exc.code == NODE_EXISTS:
                self._must_publish = True
            # Only the master makes the znode above, so that nothing is left when it has removed it.
            elif exc.code != NO_NODE:
                raise
            elif self._session.exists(self._parent) is not None:
                self._must_publish = True

    def _is_ours(self, stat: Optional[NodeStat]) -> bool:
        return stat is not None and stat.owner == self._session.id

    def _holds(self, data: bytes, stat: Optional[NodeStat]) -> bool:
        # Its length first: others may have put much there.
        if stat is None or stat.length != len(data):
            return False
        found = self._get(self._path)
        return found is not None and found[0] == data

    def _write(self, data: bytes, stat: Optional[NodeStat]) -> None:
        if self._is_ours(stat):
            self._session.set(self._path, data)
            return
        if stat is not None:
            # Of an earlier session of ours, which ends soon, or somebody else's.
            self._session.delete(self._path)
        self._session.create(self._path, data)

    def _read_instance(self) -> None:
        stat = self._session.exists(self._instance)
        if stat is None or stat.changed == self._read_at:
            return
        if 0 < stat.length <= LONGEST_INSTANCE:
            found = self._get(self._instance)
            if found is None:
                return
            data, stat = found
            self._on_instance(data)
        self._read_at = stat.changed

    def _get(self, path: str) -> Optional[Tuple[bytes, NodeStat]]:
        try:
            return self._session.get(path)
        except ZooKeeperError as exc:
            if exc.code == NO_NODE:
                return None
            raise

    def _note_loss(self, reason: str) -> None:
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        if not self._trouble and now > self._lost_at + _TROUBLE_AFTER_S:
            self._tell_trouble("no connection: %s" % reason)

    def _tell_trouble(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            log("ZooKeeper: %s" % (text[:1000] or "there again"))
