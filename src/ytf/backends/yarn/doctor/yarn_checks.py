"""Checks YARN itself for ``ytf doctor``: ResourceManagers, nodes, queue, limits of the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import reduce
from operator import add

import msgspec
from async_timeout import timeout

from ytf.backends.checks import ANSWER_S, CheckFinding, compare_clocks, failed, note, ok
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.submit.admission import check_queue, read_attempt_limit
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.conf import Address, RmService, parse_address, rm_addresses
from ytf.hadoop.rpc.client import rpc_settings
from ytf.hadoop.web import (
    WebPage,
    get_page,
    read_rm_setting,
    read_setting,
    rm_web_addresses,
    serves_plain_http,
)
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.hadoop.yarn.records import NewApplication, NodeReport, NodeState, QueueInfo, Resource
from ytf.specs.job import MasterSpec

_PAGE_S = 5.0
"""How long a web server may take: what it tells is not needed to run jobs."""
_UNUSABLE = (NodeState.UNHEALTHY, NodeState.LOST)
_TRUE = "true"
_STANDBY = "is standby"


class YarnChecks:
    """The checks of one cluster. What an earlier check has found is kept for the later ones."""

    def __init__(self, cluster: Cluster, queue: str) -> None:
        self._cluster = cluster
        self._queue = queue
        self._info: WebPage | None = None
        self._skew_s: float | None = None
        self._nodes: Sequence[NodeReport] = ()

    def resource_manager(self) -> CheckFinding:
        """Call every ResourceManager; one must be active."""
        return asyncio.run(self._resource_manager())

    async def _resource_manager(self) -> CheckFinding:
        conf = self._cluster.conf
        addresses = rm_addresses(conf, RmService.CLIENT)
        pages: list[Address | None] = [*rm_web_addresses(conf)] or [None] * len(addresses)
        roles = await asyncio.gather(*map(self._role, addresses, pages))
        told = [f"{address} {role}" for address, role in zip(addresses, roles, strict=True)]
        if None not in roles:
            return failed("; ".join(told), self._where())
        active = roles.index(None)
        await self._read_info(pages[active])
        version = self._info.value("clusterInfo", "hadoopVersion") if self._info else None
        release = f" (Hadoop {version})" if version else ""
        if len(addresses) == 1:
            return ok(f"{addresses[0]} answers{release}")
        others = [each for number, each in enumerate(told) if number != active]
        text = "; ".join([f"{addresses[active]} is active{release}", *others])
        if all(role in (None, _STANDBY) for role in roles):
            return ok(text)
        return note(text, "start it again: if the active one fails, there is no other")

    async def _role(self, address: Address, page: Address | None) -> str | None:
        """None for the active one, else what is to be said of it."""
        conf = self._cluster.conf
        settings = msgspec.structs.replace(
            rpc_settings(conf), connect_timeout_s=ANSWER_S, call_timeout_s=ANSWER_S
        )
        client = ApplicationClient.from_conf(
            conf, user=self._cluster.user, settings=settings, address=address
        )
        try:
            async with client as rm, timeout(ANSWER_S):
                await rm.metrics()
        except asyncio.TimeoutError:
            return f"has not answered within {ANSWER_S:g} s"
        except (UnreachableError, OutcomeUnknownError) as error:
            # A standby opens no port for clients; only its web server tells.
            info = await self._info_of(page)
            is_standby = info is not None and info.value("clusterInfo", "haState") == "STANDBY"
            return _STANDBY if is_standby else f"does not answer: {error}"
        return None

    async def _read_info(self, page: Address | None) -> None:
        before = time.time()
        self._info = await self._info_of(page)
        if self._info is not None and self._info.date is not None:
            # The header has whole seconds: half of one is left out on average.
            self._skew_s = self._info.date + 0.5 - (before + time.time()) / 2

    async def _info_of(self, page: Address | None) -> WebPage | None:
        if page is None:
            return None
        try:
            return await get_page(page, "/ws/v1/cluster/info", _PAGE_S)
        except (OSError, asyncio.TimeoutError, ValueError):
            return None

    def _where(self) -> str:
        file = self._cluster.directory / "yarn-site.xml"
        return (
            "see whether the ResourceManager runs, and whether yarn.resourcemanager.address (or "
            f".hostname) in {file} is right"
        )

    def clock(self) -> CheckFinding:
        """Compare this machine's clock with the ResourceManager's."""
        if self._skew_s is None:
            return note("is not known: the ResourceManager's web server does not tell its time")
        return compare_clocks(self._skew_s, "Date of its web server")

    def nodes(self) -> CheckFinding:
        """Count the nodes, and what is free on them."""
        found = self._cluster.rm.call(lambda rm: rm.nodes())
        self._nodes = usable = [node for node in found if node.state.usable]
        bad = [node for node in found if node.state in _UNUSABLE]
        sick = ""
        if bad:
            why = f": {bad[0].health.strip()}" if bad[0].health.strip() else ""
            rest = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            sick = f"{bad[0].node} is {bad[0].state.name.lower()}{why}{rest}"
        if not usable:
            return failed(
                f"no node can run containers{': ' if sick else ''}{sick}",
                "see whether NodeManagers run, and what their logs say",
            )
        total = reduce(add, (node.capability for node in usable), Resource())
        free = reduce(add, (node.free for node in usable), Resource())
        count = "1 node" if len(usable) == 1 else f"{len(usable)} nodes"
        text = f"{count} with {_amount(total)}; free: {_amount(free)}"
        if sick:
            return note(f"{text}; {sick}", "jobs do without these nodes until they are well")
        return ok(text)

    def queue(self) -> CheckFinding:
        """Look whether the queue takes jobs of this user."""
        conf = self._cluster.conf

        async def ask(rm: ApplicationClient) -> tuple[QueueInfo | None, list[str] | None]:
            told = await read_rm_setting(conf, "yarn.acl.enable", _PAGE_S)
            checks_acls = (told or conf.get_text("yarn.acl.enable")).strip().lower() == _TRUE
            found = await rm.queue(self._queue)
            ask_for_queues = checks_acls or found is None
            return found, await rm.queues_to_submit_to() if ask_for_queues else None

        found, open_queues = self._cluster.rm.call(ask)
        queue = check_queue(self._queue, found, open_queues)
        rights = "every user may submit" if open_queues is None else "you may submit"
        return ok(
            f"{queue.path or queue.name} is running, and {rights}; {queue.running} jobs run in it, "
            f"{queue.pending} wait"
        )

    def containers(self) -> CheckFinding:
        """Tell the bounds of a container."""
        conf = self._cluster.conf
        setting = "yarn.scheduler.minimum-allocation-mb"

        async def ask(rm: ApplicationClient) -> tuple[NewApplication, str | None]:
            return await rm.new_application(), await read_rm_setting(conf, setting, _PAGE_S)

        new, least = self._cluster.rm.call(ask)
        smallest = f"at least {least} MB, " if least else ""
        return ok(f"{smallest}at most {new.maximum}")

    def master_attempts(self) -> CheckFinding:
        """Tell how often a master is started."""
        limit = asyncio.run(read_attempt_limit(self._cluster.conf))
        asked = MasterSpec().max_attempts
        if limit is None:
            return note("the limit of the cluster is not known: the ResourceManager does not tell")
        if limit.attempts >= asked:
            return ok(f"up to {limit.attempts} for each job; jobs ask for {asked} by default")
        return note(
            f"up to {limit.attempts} for each job, fewer than the {asked} that jobs ask for",
            f"a job ends with its last master: let an administrator raise {limit.setting}",
        )

    def node_recovery(self) -> CheckFinding:
        """Tell whether containers outlive their NodeManager, by the settings of one of them."""
        node = self._nodes[0]
        told = asyncio.run(self._setting_of(node, "yarn.nodemanager.recovery.enabled"))
        if told is None:
            return note(f"is not known: the web server of {node.node} does not tell")
        if told.strip().lower() == _TRUE:
            return ok(f"on (asked at {node.node}): containers outlive a restarted NodeManager")
        return note(
            f"off (asked at {node.node}): a restarted NodeManager kills its containers",
            "tasks are then started again elsewhere; yarn.nodemanager.recovery.enabled changes it",
        )

    async def _setting_of(self, node: NodeReport, name: str) -> str | None:
        if not serves_plain_http(self._cluster.conf):
            return None
        try:
            return await read_setting(parse_address(node.http_address), name, _PAGE_S)
        except (OSError, asyncio.TimeoutError, ValueError):
            return None

    def log_aggregation(self) -> CheckFinding:
        """Tell whether logs of ended jobs are kept."""
        name = "yarn.log-aggregation-enable"
        told = asyncio.run(read_rm_setting(self._cluster.conf, name, _PAGE_S))
        if (told or self._cluster.conf.get_text(name)).strip().lower() == _TRUE:
            return ok("on: `ytf logs` shows what ended jobs wrote")
        return note(
            "off: what a job wrote cannot be read after its end",
            f"use `ytf logs -f` while it runs, or let an administrator set {name}",
        )


def _amount(resource: Resource) -> str:
    gib = round(max(0, resource.memory_mb) / 1024, 1)
    return f"{gib:,g} GiB and {max(0, resource.vcores)} vcores"
