"""Connects a starter to ZooKeeper and the master: the registry of ``--registry zk`` (ADR 23).

Where a task is reached goes to ZooKeeper, and the cluster spec comes from there.
Reports, orders and heartbeats are those of the REST registry, so that no one who
can write to ZooKeeper can end or steer a task; the master also tells, in its
answers to polls, which registration it has and which cluster spec is the newest.
If ZooKeeper does not bring about in some seconds what it should, the
starter registers with the master and fetches the cluster spec from it.
"""

from __future__ import annotations

import threading

from ytf.log import LimitedLog, log
from ytf.starter.desired_state import ReceivedClusterSpec
from ytf.starter.rest_registry import REGISTER, RestRegistryClient
from ytf.starter.zookeeper_component import ComponentNode
from ytf.wire.registry_documents import Component, read_instance, write_component

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable, Dict, Optional, Sequence

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.master_locator import MasterLocator
    from ytf.wire.signing import Signer

REST_FALLBACK_S = 8.0
"""How long ZooKeeper may take before the master is asked instead; less with short heartbeats."""


class ZooKeeperRegistryClient(RestRegistryClient):
    """A :class:`ytf.starter.registry.RegistryClient` that registers in ZooKeeper.

    ``servers`` are ZooKeeper's, ``job_path`` is the path of the job's znode.
    """

    def __init__(
        self,
        locator: MasterLocator,
        signer: Signer,
        inbox: SimpleQueue[InboxMessage],
        *,
        job: str,
        task: str,
        container: str,
        heartbeat_timeout_s: float,
        condition: Callable[[], Dict[str, object]] = dict,
        servers: Sequence[str],
        job_path: str,
    ) -> None:
        super().__init__(
            locator,
            signer,
            inbox,
            task=task,
            container=container,
            heartbeat_timeout_s=heartbeat_timeout_s,
            condition=condition,
        )
        self._signer = signer
        self._job = job
        self._rest_fallback_s = min(REST_FALLBACK_S, heartbeat_timeout_s / 4)
        self._node = ComponentNode(
            servers,
            job_path,
            container,
            on_published=lambda: log("%s is in ZooKeeper" % task),
            on_instance=self._take_instance,
        )
        self._changed = threading.Condition()
        self._published_spec: Optional[ReceivedClusterSpec] = None
        self._limited_log = LimitedLog()

    # What starters call

    def start(self) -> None:
        """Begin to deliver reports, and to connect to ZooKeeper."""
        self._node.start(self._inbox)
        super().start()

    def register(
        self, attempt: int, *, host: str, port: Optional[int], control: Optional[str]
    ) -> None:
        """Publish where an attempt is reached; report it to the master if that is not enough."""
        group, _, index = self._task.rpartition(":")
        component = Component(
            group=group, index=int(index), attempt=attempt, host=host, port=port, control=control
        )
        self._node.publish(
            write_component(
                component, job=self._job, container=self._container, signer=self._signer
            )
        )
        super().register(attempt, host=host, port=port, control=control)
        # The answer to a poll tells that the master has seen it.
        self.subscribe()

    def close(self) -> None:
        """Remove the task's znode."""
        self._node.close()

    # In place of what the REST registry does

    def _deliver(self, report: str, attempt: int, body: Dict[str, object]) -> None:
        if report == REGISTER:
            with self._changed:
                if self._changed.wait_for(
                    lambda: self._known_registration >= attempt, self._rest_fallback_s
                ):
                    return
            log("the master has not seen attempt %d in ZooKeeper: telling it" % attempt)
        super()._deliver(report, attempt, body)

    def _note_registration(self, attempt: int) -> None:
        super()._note_registration(attempt)
        with self._changed:
            self._changed.notify_all()

    def _fetch_spec(self, revision: int, newest: int) -> int:
        # Only now: whoever can write to the job's node could have us read it all the time.
        self._node.watch_instance()
        with self._changed:
            self._changed.wait_for(
                lambda: self._spec_since(newest) is not None, self._rest_fallback_s
            )
            spec = self._spec_since(newest)
        self._node.ignore_instance()
        if spec is None:
            log("cluster spec %d is not in ZooKeeper: asking the master for it" % newest)
            return super()._fetch_spec(revision, newest)
        self._inbox.put(spec)
        return spec.revision

    def _spec_since(self, revision: int) -> Optional[ReceivedClusterSpec]:
        spec = self._published_spec
        return spec if spec is not None and spec.revision >= revision else None

    # The thread of the component

    def _take_instance(self, data: bytes) -> None:
        found = read_instance(data, job=self._job, signer=self._signer)
        if found is None:
            self._limited_log.write("the job's znode in ZooKeeper was not written by its master")
            return
        spec = ReceivedClusterSpec(found.generation, found.revision, found.members)
        with self._changed:
            known = self._published_spec
            if known is None or known.revision < spec.revision:
                self._published_spec = spec
                self._changed.notify_all()
