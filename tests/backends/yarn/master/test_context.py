"""How a master context is made in a container, and how long it waits for what does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from google.protobuf.message import Message

from tests.backends.yarn.fake_cluster import ATTEMPT
from tests.hadoop.rpc.server import Received, RpcServer
from ytf.backends.yarn.hdfs_layout import JobHome, StagedJob, retry_hdfs
from ytf.backends.yarn.launch_contexts import SECRET_NAME, StarterResources
from ytf.backends.yarn.master import context as module
from ytf.backends.yarn.master.context import make_master_context, open_job
from ytf.errors import UnreachableError
from ytf.hadoop.proto import client_pb2, ids_pb2, records_pb2, security_pb2
from ytf.hadoop.security import credentials
from ytf.hadoop.security.credentials import MASTER_TOKEN, TOKEN_FILE_VARIABLE, Credentials, Token
from ytf.minicluster.configuration import to_xml
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec, Placement, TaskGroupSpec
from ytf.specs.status import JobInfo
from ytf.storage.local_files import LocalFiles

STAGING = "hdfs://no_log_page:8020/user/alice/.ytf/jobs/application_1_0007"


def job(placement: Placement = Placement.ANY) -> StagedJob:
    groups = {"worker": TaskGroupSpec(count=1, placement=placement)}
    return StagedJob(
        info=JobInfo(
            id=JobId("application_1_0007"), user="alice", submitted_at=1.5, backend="yarn"
        ),
        spec=JobSpec(groups=groups, command="true"),
        secret="s3cr3t",
        starter=StarterResources(script="", files={}),
    )


def container(tmp_path: Path, rm: RpcServer) -> dict[str, str]:
    """The environment of a master's container."""
    site = {"yarn.resourcemanager.address": str(rm.address)}
    (tmp_path / "yarn-site.xml").write_text(to_xml(site))
    identifier = security_pb2.MasterTokenIdentifier(attempt=ATTEMPT.to_message(), key_id=7)
    token = Token(identifier.SerializeToString(), b"p", MASTER_TOKEN)
    tokens = tmp_path / "tokens"
    tokens.write_bytes(credentials.encode(Credentials({"am": token}, {SECRET_NAME: b"s3cr3t"})))
    return {
        "HADOOP_CONF_DIR": str(tmp_path),
        TOKEN_FILE_VARIABLE: str(tokens),
        "NM_HOST": "node7",
    }


class SlowRm:
    """Names its nodes when asked a second time."""

    def __init__(self) -> None:
        self.asked = 0

    async def nodes(self, received: Received) -> Message:
        self.asked += 1
        if self.asked == 1:
            await asyncio.Event().wait()
        node = records_pb2.NodeReport(node=ids_pb2.NodeId(host="node7", port=8041), state=3)
        return client_pb2.GetClusterNodesResponse(nodes=[node])


@pytest.mark.parametrize(("placement", "asked"), [(Placement.ANY, 1), (Placement.APART, 2)])
async def test_nodes_are_asked_for_again_only_where_tasks_are_kept_apart(
    placement: Placement,
    asked: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "_NODES_S", 0.3)
    monkeypatch.setattr(module, "open_job", lambda home: job(placement))
    slow = SlowRm()
    async with RpcServer({"getClusterNodes": slow.nodes}) as rm:
        found = await make_master_context(STAGING, container(tmp_path, rm))
    assert slow.asked == asked
    assert (found.attempt, found.host, found.secret) == (1, "node7", b"s3cr3t")
    told = capfd.readouterr().err
    assert told.count("the nodes of the cluster are not known") == 1
    assert "no answer within 0.3 s" in told


class EmptyRm:
    """Has no nodes the first times it is asked."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def nodes(self, received: Received) -> Message:
        self.times -= 1
        there = [] if self.times >= 0 else [ids_pb2.NodeId(host="node7", port=8041)]
        reports = [records_pb2.NodeReport(node=each, state=3) for each in there]
        return client_pb2.GetClusterNodesResponse(nodes=reports)


async def test_nodes_that_are_away_are_waited_for_where_tasks_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NODES_RETRY_S", 0.001)
    monkeypatch.setattr(module, "open_job", lambda home: job(Placement.APART))
    empty = EmptyRm(3)
    async with RpcServer({"getClusterNodes": empty.nodes}) as rm:
        await make_master_context(STAGING, container(tmp_path, rm))
    assert empty.times == -1


class SafeMode(LocalFiles):
    """HDFS that can be read, and not be changed before a third try."""

    refusals = 2

    def mkdir(self, path: str, mode: int = 0o700) -> None:
        if self.refusals:
            self.refusals -= 1
            raise UnreachableError("the name node is in safe mode")
        super().mkdir(path, mode)


async def test_a_master_begins_once_hdfs_takes_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ytf.backends.yarn.hdfs_layout.FIRST_RETRY_S", 0.001)
    files = SafeMode()
    home = JobHome.at(files, str(tmp_path))
    home.stage(job())
    assert await retry_hdfs(lambda: open_job(home)) == job()
    assert not files.refusals
    assert files.stat(home.journal).is_directory
