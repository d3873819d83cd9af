"""What a master begins with in the container that YARN gave it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ytf.backends.yarn.baggage import CONFIGURATION
from ytf.backends.yarn.contexts import SECRET, Contexts
from ytf.backends.yarn.home import JobHome, StagedJob
from ytf.backends.yarn.kinds import access_of, kinds_of
from ytf.backends.yarn.master.containers import YarnContainers
from ytf.backends.yarn.master.patience import patiently
from ytf.backends.yarn.nodes import name_of
from ytf.backends.yarn.proxy import ProxyAccess, is_tls
from ytf.errors import SettingsError, YtfError
from ytf.hadoop.conf import FILES, Configuration
from ytf.hadoop.rpc.settings import Patience
from ytf.hadoop.security.credentials import Credentials, read_token_file
from ytf.hadoop.yarn.client import ClientProtocol
from ytf.hadoop.yarn.master import MasterProtocol, attempt_of, master_token
from ytf.hadoop.yarn.records import NodeReport, NodeState
from ytf.master.premises import Premises
from ytf.master.service import log
from ytf.specs.job import Placement
from ytf.storage.hdfs import HdfsBlobs, HdfsFiles, path_of

_NODES_S = 5.0
"""How long the list of nodes may take; without it allocation is slower, no more."""
_NODES_APART_S = 120.0
"""How long where tasks are to be kept apart: they get only what is asked for by name."""
_LOOK_S = 1.0


async def premises(staging: str, environ: Mapping[str, str] = os.environ) -> Premises:
    """Those of the attempt whose container this is, at the job staged at a URL."""
    conf = container_configuration(environ)
    credentials = read_token_file(environ)
    token = master_token(credentials)
    files = HdfsFiles.open(staging, conf)
    home = JobHome.at(files, path_of(staging))
    nodes, staged = await asyncio.gather(
        cluster_nodes(conf, _NODES_S), patiently(lambda: open_job(home))
    )
    spec, info = staged.spec, staged.info
    kinds = kinds_of(spec)
    if not nodes and any(kind.placement is Placement.APART for kind in kinds):
        nodes = await cluster_nodes(conf, _NODES_APART_S, at_least=1)
    contexts = Contexts(
        user=info.user, secure=conf.secure, credentials=credentials, access=access_of(spec)
    )
    backend = YarnContainers(
        MasterProtocol.from_conf(conf, token),
        user=info.user,
        kinds=kinds,
        nodes=nodes,
        name_of=name_of(conf),
        make_context=lambda launch: contexts.starter(launch, staged.starter),
        home=home,
        scheme="https" if is_tls(conf) else "http",
    )
    return Premises(
        spec=spec,
        info=info,
        secret=_secret(credentials),
        attempt=attempt_of(token).number,
        journal=HdfsBlobs(files.link, home.journal),
        journal_patience_s=5.0,
        interface="0.0.0.0",
        host=_host(environ),
        backend=backend,
        access=ProxyAccess(conf, job=info.id, owner=info.user, viewers=spec.acl_view or ""),
    )


def container_configuration(environ: Mapping[str, str]) -> Configuration:
    """The node's own configuration, which knows best; else what came with the job."""
    named = environ.get("HADOOP_CONF_DIR")
    if named and any(os.access(Path(named, name), os.R_OK) for name in FILES):
        return Configuration.load(Path(named), environ=environ)
    return Configuration.load(Path.cwd() / CONFIGURATION, environ=environ)


def open_job(home: JobHome) -> StagedJob:
    """The job as it was staged, once HDFS takes changes as well. Idempotent."""
    staged = home.staged()
    # In safe mode HDFS is read and not written, and a journal is claimed in a single try.
    home.files.mkdir(home.journal)
    return staged


async def cluster_nodes(
    conf: Configuration, within_s: float, *, at_least: int = 0
) -> Sequence[NodeReport]:
    """The nodes that run, once there are ``at_least`` so many; none if that takes too long.

    Those that come later are told of with the heartbeats.
    """
    async with ClientProtocol.from_conf(conf, patience=Patience(total_s=within_s)) as rm:
        try:
            return await asyncio.wait_for(_nodes(rm, at_least), within_s)
        except (YtfError, asyncio.TimeoutError) as error:
            why = str(error) or f"no answer within {within_s:g} s"
            log(f"the nodes of the cluster are not known, so none is asked for by name: {why}")
            return ()


async def _nodes(rm: ClientProtocol, at_least: int) -> Sequence[NodeReport]:
    while True:
        found = await rm.nodes(NodeState.RUNNING)
        if len(found) >= at_least:
            return found
        await asyncio.sleep(_LOOK_S)


def _secret(credentials: Credentials) -> bytes:
    try:
        return credentials.secrets[SECRET]
    except KeyError:
        raise SettingsError(f"the container's credentials hold no {SECRET}") from None


def _host(environ: Mapping[str, str]) -> str:
    host = environ.get("NM_HOST")
    if not host:
        raise SettingsError(
            "NM_HOST is not set", hint="a master runs in the container that YARN starts for it"
        )
    return host
