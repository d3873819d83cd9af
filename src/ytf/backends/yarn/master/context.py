"""Builds the ``MasterContext`` of a master attempt in its YARN container."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from async_timeout import timeout

from ytf.backends.api import MasterContext
from ytf.backends.yarn.container_requests import node_namer, profiles_of
from ytf.backends.yarn.hdfs_layout import JobHome, StagedJob, retry_hdfs
from ytf.backends.yarn.launch_contexts import SECRET_NAME, LaunchContexts, acls_of
from ytf.backends.yarn.master.container_backend import YarnContainerBackend
from ytf.backends.yarn.master.web_proxy import ProxyPageAuth
from ytf.backends.yarn.node_log_pages import uses_https_only
from ytf.errors import SettingsError, YtfError
from ytf.hadoop.conf import Configuration, RmService, rm_addresses
from ytf.hadoop.rpc.client import RetryPolicy
from ytf.hadoop.security.credentials import Credentials, read_token_file
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.hadoop.yarn.application_master_client import (
    ApplicationMasterClient,
    attempt_of,
    master_token,
)
from ytf.hadoop.yarn.records import NodeReport, NodeState
from ytf.log import log
from ytf.specs.job import Placement
from ytf.storage.container_conf import container_configuration
from ytf.storage.hdfs import HdfsBlobs, HdfsFiles, path_of
from ytf.wire.signing import Signer

_NODES_S = 5.0
"""Time limit for the list of nodes. Without it allocation is slower."""
_NODES_APART_S = 120.0
"""The limit for jobs whose tasks are kept apart: they get containers on named hosts only."""
_NODES_RETRY_S = 1.0


async def make_master_context(
    staging: str, environ: Mapping[str, str] = os.environ
) -> MasterContext:
    """The context of the attempt whose container this is; the job is staged at a URL."""
    conf = container_configuration(environ)
    credentials = read_token_file(environ)
    token = master_token(credentials)
    files = HdfsFiles.open(staging, conf)
    home = JobHome.at(files, path_of(staging))
    nodes, staged = await asyncio.gather(
        cluster_nodes(conf, _NODES_S), retry_hdfs(lambda: open_job(home))
    )
    spec, info, secret = staged.spec, staged.info, _secret(credentials)
    is_strict = spec.gpus_per_node is not None or any(
        each.placement is Placement.APART for each in profiles_of(spec)
    )
    if not nodes and is_strict:
        nodes = await cluster_nodes(conf, _NODES_APART_S, at_least=1)
    contexts = LaunchContexts(
        user=info.user, secure=conf.secure, credentials=credentials, acls=acls_of(spec)
    )
    backend = YarnContainerBackend(
        ApplicationMasterClient.from_conf(conf, token),
        user=info.user,
        nodes=nodes,
        name_of=node_namer(conf),
        make_context=lambda launch: contexts.starter(launch, staged.starter),
        home=home,
        sign_master=Signer(secret).sign_master,
        scheme="https" if uses_https_only(conf) else "http",
        gpus_per_node=spec.gpus_per_node,
    )
    return MasterContext(
        spec=spec,
        info=info,
        secret=secret,
        attempt=attempt_of(token).number,
        journal=HdfsBlobs(files.client, home.journal),
        journal_timeout_s=5.0,
        host=_host(environ),
        peer=_resource_manager(conf),
        backend=backend,
        page_auth=ProxyPageAuth(conf, job=info.id, owner=info.user, viewers=spec.acl_view or ""),
    )


def open_job(home: JobHome) -> StagedJob:
    """The staged job, once HDFS accepts writes as well. Idempotent."""
    staged = home.staged()
    # In safe mode HDFS serves reads only, and claiming the journal is not retried.
    home.files.mkdir(home.journal)
    return staged


async def cluster_nodes(
    conf: Configuration, timeout_s: float, *, at_least: int = 0
) -> Sequence[NodeReport]:
    """The running nodes, once there are ``at_least`` so many; none after ``timeout_s``.

    Nodes that join later are reported with the heartbeats.
    """
    async with ApplicationClient.from_conf(conf, retry_policy=RetryPolicy(total_s=timeout_s)) as rm:
        try:
            async with timeout(timeout_s):
                return await _nodes(rm, at_least)
        except (YtfError, asyncio.TimeoutError) as error:
            why = str(error) or f"no answer within {timeout_s:g} s"
            log(f"the nodes of the cluster are not known, so no request names hosts: {why}")
            return ()


async def _nodes(rm: ApplicationClient, at_least: int) -> Sequence[NodeReport]:
    while True:
        found = await rm.nodes(NodeState.RUNNING)
        if len(found) >= at_least:
            return found
        await asyncio.sleep(_NODES_RETRY_S)


def _resource_manager(conf: Configuration) -> tuple[str, int]:
    address = rm_addresses(conf, RmService.SCHEDULER)[0]
    return address.host, address.port


def _secret(credentials: Credentials) -> bytes:
    try:
        return credentials.secrets[SECRET_NAME]
    except KeyError:
        raise SettingsError(f"the container's credentials hold no {SECRET_NAME}") from None


def _host(environ: Mapping[str, str]) -> str:
    host = environ.get("NM_HOST")
    if not host:
        raise SettingsError(
            "NM_HOST is not set", hint="a master runs in the container that YARN starts for it"
        )
    return host
