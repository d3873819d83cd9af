"""Defines what a starter needs of a registry, and connects to the one that the job uses.

The other side of this port is ``ytf.registry.api``, in the master. A registry
client has threads of its own. All that it learns goes into the starter's
inbox: orders, cluster specs, ``Registered``, and a ``Shutdown`` when the master
does not want this container any more.

To add a registry, write a module beside ``rest_registry`` with a
:class:`RegistryClient`, and name it in :data:`REGISTRIES` and
:func:`make_registry_client`; its name is one of ``ytf.specs.registry.KINDS``.
"""

from __future__ import annotations

from ytf.starter.rest_registry import RestRegistryClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

    Condition = Callable[[], Dict[str, object]]
    """Returns how the running program is, for the next heartbeat. Called from any thread."""

    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.master_locator import MasterLocator
    from ytf.starter.runner import ProgramExit
    from ytf.wire.signing import Signer

    class RegistryClient(Protocol):
        """One task's connection to the registry. Calls return at once; threads do the work."""

        def start(self) -> None:
            """Begin to deliver reports."""

        def register(
            self, attempt: int, *, host: str, port: Optional[int], control: Optional[str]
        ) -> None:
            """Report where an attempt is reached; ``Registered`` tells that this is durable."""

        def report_started(self, attempt: int) -> None:
            """Report that the program runs. Dropped if its exit is reported before it arrived."""

        def report_exited(
            self,
            attempt: int,
            end: ProgramExit,
            *,
            tail: str = "",
            tail_stream: str = "stderr",
            port_lost: bool = False,
            output_lost_at: Optional[float] = None,
            usage: Optional[Dict[str, Any]] = None,
        ) -> None:
            """Report the program's exit, however long that takes: masters may come and go.

            ``tail`` is the end of what it wrote to ``tail_stream``. ``port_lost``:
            another process has the port that was released for the program.
            ``output_lost_at``: when the disk of its logs was first found full.
            ``usage``: what it used, and at most (``ytf.starter.usage_meter``).
            """

        def flush(self, timeout_s: float) -> bool:
            """Wait until every report is durable; False if ``timeout_s`` passed first."""

        def subscribe(self) -> None:
            """Begin to receive orders and cluster specs, after the first registration.

            Further calls do nothing. To the master it is also the heartbeat.
            """

        def set_master(self, url: str, attempt: int) -> None:
            """Take in the address of a new master; an older attempt's is ignored.

            May come from any thread. Raises ``ValueError`` if it is no address.
            """

        def silence_s(self) -> float:
            """How long no master has answered, in seconds."""

        def close(self) -> None:
            """Leave nothing published behind. Returns within seconds."""


REST = "rest"
ZOOKEEPER = "zk"
REGISTRIES = (REST, ZOOKEEPER)
"""The names that ``YTF_STARTER`` may give."""


def make_registry_client(
    name: str,
    *,
    locator: MasterLocator,
    signer: Signer,
    inbox: SimpleQueue[InboxMessage],
    job: str,
    task: str,
    container: str,
    heartbeat_timeout_s: float,
    condition: Condition,
    zookeeper: Tuple[List[str], str] = ([], ""),
) -> RegistryClient:
    """Make the client of the registry called ``name``, one of :data:`REGISTRIES`.

    ``zookeeper`` are ZooKeeper's servers and the path of the job's znode, if the job uses it.
    """
    if name == REST:
        return RestRegistryClient(
            locator,
            signer,
            inbox,
            task=task,
            container=container,
            heartbeat_timeout_s=heartbeat_timeout_s,
            condition=condition,
        )
    if name != ZOOKEEPER:
        raise ValueError("there is no registry %r: ytf knows %s" % (name, ", ".join(REGISTRIES)))
    # Only starters of such jobs load it.
    from ytf.starter.zookeeper_registry import ZooKeeperRegistryClient

    servers, job_path = zookeeper
    return ZooKeeperRegistryClient(
        locator,
        signer,
        inbox,
        job=job,
        task=task,
        container=container,
        heartbeat_timeout_s=heartbeat_timeout_s,
        condition=condition,
        servers=servers,
        job_path=job_path,
    )
