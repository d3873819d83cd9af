"""YARN's protocols against a real Hadoop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from ytf.hadoop.conf import Configuration, RmService, rm_addresses
from ytf.hadoop.proto import master_pb2
from ytf.hadoop.rpc import digest_md5
from ytf.hadoop.rpc.client import RetryPolicy, RpcClient
from ytf.hadoop.rpc.connection import Method, connect
from ytf.hadoop.rpc.errors import (
    ApplicationNotFoundError,
    AuthenticationError,
    InvalidMasterRequestError,
    InvalidResourceRequestError,
    InvalidTokenError,
    NoSuchMethodError,
    NotExecutedError,
)
from ytf.hadoop.security import credentials as files
from ytf.hadoop.security.credentials import MASTER_TOKEN, Credentials, Token
from ytf.hadoop.security.login import Login
from ytf.hadoop.yarn import application_client, application_master_client
from ytf.hadoop.yarn.allocate_request import AllocateRequest, ResourceRequest
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.hadoop.yarn.application_master_client import (
    ApplicationMasterClient,
    attempt_of,
    master_token,
)
from ytf.hadoop.yarn.container_management_client import ContainerManagementClient
from ytf.hadoop.yarn.contexts import ApplicationSubmissionContext, ContainerLaunchContext
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import (
    AllocateResponse,
    ApplicationReport,
    ApplicationState,
    ContainerExitStatus,
    ContainerState,
    FinalApplicationStatus,
    NodeState,
    Resource,
)
from ytf.minicluster import ClusterOptions, MiniCluster
from ytf.testing.waiting import eventually_async

pytestmark = [pytest.mark.yarn, pytest.mark.timeout(300)]

WAIT_S = 30.0
SMALL = Resource(128, 1)
DEFAULT_QUEUE = {"default", "root.default"}
"""Hadoop 3.3 names queues without their path, later ones with it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """One node with two counted GPUs, and every protection of RPC on offer."""
    offers = {"hadoop.rpc.protection": "authentication,integrity,privacy"}
    options = ClusterOptions(nodes=1, gpus=2, properties=offers)
    with MiniCluster(tmp_path_factory.mktemp("hadoop") / "cluster", options) as running:
        yield running


@pytest.fixture
def conf(cluster: MiniCluster) -> Configuration:
    return Configuration.load(cluster.conf_dir)


@pytest.fixture
async def rm(conf: Configuration) -> AsyncIterator[ApplicationClient]:
    async with ApplicationClient.from_conf(conf, user="alice", caller="ytf test") as connected:
        yield connected


async def submit(
    rm: ApplicationClient,
    command: str = "",
    credentials: Credentials | None = None,
    **fields: object,
) -> ApplicationId:
    """Submit an application; without a command its master is the test itself."""
    new = await rm.new_application()
    submission = ApplicationSubmissionContext(
        id=new.id,
        name="live",
        type="YTF",
        master=ContainerLaunchContext(command=command, credentials=credentials or Credentials()),
        master_resource=SMALL,
        unmanaged=not command,
        max_attempts=1,
    )
    await rm.submit(msgspec.structs.replace(submission, **fields))
    return new.id


async def report_until(
    rm: ApplicationClient, app: ApplicationId, enough: Callable[[ApplicationReport], object]
) -> ApplicationReport:
    return await eventually_async(
        lambda: rm.report(app), WAIT_S, accept=lambda report: enough(report) or report.state.ended
    )


async def kill(rm: ApplicationClient, app: ApplicationId) -> None:
    await eventually_async(lambda: rm.kill(app, "the test is over"), WAIT_S)


@asynccontextmanager
async def mastered(
    rm: ApplicationClient, conf: Configuration
) -> AsyncIterator[tuple[ApplicationId, ApplicationMasterClient]]:
    """An application whose master is the test."""
    app = await submit(rm)
    try:
        report = await report_until(rm, app, lambda told: told.master_token)
        assert report.master_token is not None, report
        assert attempt_of(report.master_token).application == app
        async with ApplicationMasterClient.from_conf(conf, report.master_token) as protocol:
            yield app, protocol
    finally:
        await kill(rm, app)


async def beat_until(
    protocol: ApplicationMasterClient,
    first: AllocateRequest,
    enough: Callable[[AllocateResponse], object],
) -> AllocateResponse:
    beats = iter([first])
    return await eventually_async(
        lambda: protocol.allocate(next(beats, AllocateRequest())),
        WAIT_S,
        accept=enough,
        poll_s=0.05,
    )


async def test_looking_around(rm: ApplicationClient) -> None:
    metrics = await rm.metrics()
    assert (metrics.nodes, metrics.active) == (1, 1)
    [node] = await rm.nodes(NodeState.RUNNING)
    assert node.capability.others == {"yarn.io/gpu": 2}
    assert node.rack == "/default-rack"
    assert await rm.nodes(NodeState.LOST) == []
    assert {kind.name for kind in await rm.resource_types()} == {
        "memory-mb", "vcores", "yarn.io/gpu",
    }  # fmt: skip
    queue = await rm.queue("default")
    assert queue is not None
    assert queue.maximum == node.capability
    assert queue.path in DEFAULT_QUEUE
    assert await rm.queue("nope") is None
    root = await rm.queue("root", recursive=True)
    assert root is not None
    assert [child.name for child in root.children] == ["default"]
    assert DEFAULT_QUEUE & set(await rm.queues_to_submit_to())
    assert await rm.node_labels() == []


async def test_an_application_is_submitted_found_and_killed(rm: ApplicationClient) -> None:
    app = await submit(rm, "exec sleep 300", name="sleeper", tags=("one", "two"))
    report = await report_until(rm, app, lambda told: told.launched_ms)
    assert (report.name, report.user, report.type) == ("sleeper", "alice", "YTF")
    assert report.tags == ("one", "two")
    assert report.started_ms > 0
    assert app in [each.id for each in await rm.applications(types=["YTF"], users=["alice"])]
    assert await rm.applications(types=["OTHER"]) == []
    [attempt] = await eventually_async(
        lambda: rm.attempts(app), WAIT_S, accept=lambda told: told and told[0].container
    )
    assert attempt.id.application == app
    await kill(rm, app)
    ended = await rm.report(app)
    assert (ended.state, ended.final_status) == (
        ApplicationState.KILLED,
        FinalApplicationStatus.KILLED,
    )
    assert "the test is over" in ended.diagnostics


async def test_submitting_twice_is_once(rm: ApplicationClient) -> None:
    app = await submit(rm, "exec sleep 300")
    await submit_again(rm, app)
    await report_until(rm, app, lambda told: told.state is ApplicationState.ACCEPTED)
    await submit_again(rm, app)
    await kill(rm, app)


async def submit_again(rm: ApplicationClient, app: ApplicationId) -> None:
    await rm.submit(
        ApplicationSubmissionContext(
            id=app,
            name="again",
            type="YTF",
            master=ContainerLaunchContext(command="exec sleep 300"),
            master_resource=SMALL,
        )
    )


async def test_what_the_resourcemanager_refuses(rm: ApplicationClient) -> None:
    with pytest.raises(InvalidResourceRequestError):
        await submit(rm, "exec true", master_resource=Resource(10**7, 1))
    with pytest.raises(ApplicationNotFoundError):
        await rm.report(ApplicationId(1, 1))
    app = await submit(rm, "exec true", queue="nowhere")
    report = await report_until(rm, app, lambda told: False)
    assert report.state is ApplicationState.FAILED
    assert "nowhere" in report.diagnostics


async def test_a_method_that_is_too_new(conf: Configuration) -> None:
    novelty = Method("getTomorrow", master_pb2.AllocateRequest, master_pb2.AllocateResponse, True)
    addresses = rm_addresses(conf, RmService.CLIENT)
    async with RpcClient(addresses, application_client.PROTOCOL, Login(user="alice")) as service:
        with pytest.raises(NoSuchMethodError):
            await service.call(novelty, master_pb2.AllocateRequest())


async def test_a_master_gets_its_token_and_our_secret(
    rm: ApplicationClient, tmp_path: Path
) -> None:
    copy = tmp_path / "tokens"
    command = f"cp $HADOOP_TOKEN_FILE_LOCATION {copy}.part && mv {copy}.part {copy}; exec sleep 300"
    app = await submit(rm, command, Credentials({}, {"job": b"s3cr3t"}))
    await eventually_async(copy.exists, WAIT_S)
    held = files.load(copy)
    assert held.secrets == {"job": b"s3cr3t"}
    assert attempt_of(master_token(held)).application == app
    await kill(rm, app)


async def test_a_masters_whole_life(
    rm: ApplicationClient, conf: Configuration, tmp_path: Path
) -> None:
    async with mastered(rm, conf) as (app, protocol):
        registration = await protocol.register("localhost", -1, "http://localhost:1/")
        assert registration.maximum.others == {"yarn.io/gpu": 2}
        assert registration.queue in DEFAULT_QUEUE

        size = Resource(128, 1, {"yarn.io/gpu": 1})
        asks = (ResourceRequest(priority=1, resource=size, count=2, allocation_request_id=9),)
        first = await beat_until(protocol, AllocateRequest(asks=asks), lambda told: told.allocated)
        [node_token] = first.node_tokens
        containers = list(first.allocated)
        if len(containers) < 2:
            containers += (
                await beat_until(protocol, AllocateRequest(), lambda t: t.allocated)
            ).allocated
        assert [each.resource for each in containers] == [size, size]
        assert containers[0].allocation_request_id == 9

        async with ContainerManagementClient(node_token) as node:
            command = f"echo $$ > {tmp_path}/$CONTAINER_ID-$A; exec sleep 300"
            launch = ContainerLaunchContext(command=command, environment={"A": "b"})
            done = await node.start([(each, launch) for each in containers])
            assert set(done.succeeded) == {each.id for each in containers}
            again = await node.start([(containers[0], launch)])
            assert "relaunch" in again.failed[0].message
            one, other = (each.id for each in containers)
            await eventually_async(
                lambda: node.statuses([one, other]),
                WAIT_S,
                accept=lambda told: all(
                    s.state is ContainerState.RUNNING for s in told[0].values()
                ),
            )
            # RUNNING begins before the process does.
            await eventually_async(lambda: len(list(tmp_path.iterdir())) == 2, WAIT_S)
            assert (tmp_path / f"{one}-b").exists()
            assert (await node.stop([other])).succeeded == (other,)
            pid = await eventually_async((tmp_path / f"{one}-b").read_text, WAIT_S)
            os.kill(int(pid), signal.SIGKILL)
            ended: dict[object, int] = {}

            def note(told: AllocateResponse) -> bool:
                ended.update({each.container: each.exit_status for each in told.completed})
                return len(ended) == 2

            await beat_until(protocol, AllocateRequest(), note)
            assert ended[other] == ContainerExitStatus.KILLED_BY_APPMASTER
            assert ended[one] == 137
            gone = ApplicationId(1, 1)
            _, failed = await node.statuses([msgspec.structs.replace(
                one, attempt=msgspec.structs.replace(one.attempt, application=gone))])  # fmt: skip
            assert len(failed) == 1
        await protocol.allocate(AllocateRequest(progress=0.5))
        report = await report_until(rm, app, lambda told: told.progress)
        assert report.progress == 0.5
        assert report.original_tracking_url == "http://localhost:1/"
        await eventually_async(
            lambda: protocol.finish(FinalApplicationStatus.SUCCEEDED, "well done", ""), WAIT_S
        )
        report = await report_until(rm, app, lambda told: False)
        assert (report.state, report.final_status) == (
            ApplicationState.FINISHED, FinalApplicationStatus.SUCCEEDED,
        )  # fmt: skip


async def test_what_a_master_must_not_do(rm: ApplicationClient, conf: Configuration) -> None:
    async with mastered(rm, conf) as (_, protocol):
        await protocol.register("localhost", -1, "")
        with pytest.raises(InvalidMasterRequestError):
            await protocol.register("localhost", -1, "")
        await protocol.allocate(AllocateRequest())
        assert protocol.token is not None
        login = Login(user="", token=protocol.token, secure=True)
        addresses = rm_addresses(conf, RmService.SCHEDULER)
        async with RpcClient(addresses, application_master_client.PROTOCOL, login) as service:
            with pytest.raises(InvalidMasterRequestError):
                await service.call(
                    Method(
                        "allocate", master_pb2.AllocateRequest, master_pb2.AllocateResponse, True
                    ),
                    master_pb2.AllocateRequest(response_id=77),
                )


async def test_doors_that_stay_closed(conf: Configuration) -> None:
    [address] = rm_addresses(conf, RmService.SCHEDULER)
    stranger = Token(b"\x0a\x00", b"x" * 20, MASTER_TOKEN)
    with pytest.raises((InvalidTokenError, AuthenticationError)):
        await connect(address, application_master_client.PROTOCOL, Login(user="", token=stranger))
    connection = await connect(address, application_master_client.PROTOCOL, Login(user="alice"))
    with pytest.raises(AuthenticationError, match="SIMPLE authentication is not enabled"):
        await connection.call(
            Method("allocate", master_pb2.AllocateRequest, master_pb2.AllocateResponse, True),
            master_pb2.AllocateRequest(),
        )
    await connection.close()


async def test_a_wrong_password_is_refused(rm: ApplicationClient, conf: Configuration) -> None:
    async with mastered(rm, conf) as (_, protocol):
        assert protocol.token is not None
        wrong = msgspec.structs.replace(protocol.token, password=b"wrong")
        [address] = rm_addresses(conf, RmService.SCHEDULER)
        with pytest.raises(AuthenticationError, match="DIGEST-MD5"):
            await connect(address, application_master_client.PROTOCOL, Login(user="", token=wrong))


@pytest.mark.parametrize(
    "choice", [("auth", ""), ("auth-int", ""), ("auth-conf", "rc4"), ("auth-conf", "3des")]
)
async def test_the_jdk_understands_every_protection(
    rm: ApplicationClient,
    conf: Configuration,
    choice: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered: list[digest_md5.Challenge] = []

    def choose(challenge: digest_md5.Challenge) -> tuple[str, str]:
        offered.append(challenge)
        return choice

    monkeypatch.setattr(digest_md5, "choose", choose)
    async with mastered(rm, conf) as (_, protocol):
        await protocol.register("localhost", -1, "x" * 100_000)
        for _ in range(3):
            await protocol.allocate(AllocateRequest())
    assert choice[0] in offered[0].qops


async def test_web_ports_and_closed_ports_are_told_apart(cluster: MiniCluster) -> None:
    ports = cluster.daemons["rm"].ports
    web = Configuration.of({"yarn.resourcemanager.address": f"127.0.0.1:{ports['web']}"})
    async with ApplicationClient.from_conf(web, user="alice") as rm:
        with pytest.raises(Exception, match=r"HTTP|closed"):
            await rm.metrics()
    none = Configuration.of({"yarn.resourcemanager.address": "127.0.0.1:1"})
    async with ApplicationClient.from_conf(none, user="alice") as rm:
        with pytest.raises(NotExecutedError, match=r"Connect.*failed|refused"):
            await rm.metrics()


async def test_one_of_two_resourcemanagers_dies(hadoop_pair: MiniCluster) -> None:
    conf = Configuration.load(hadoop_pair.conf_dir)
    dead = hadoop_pair.active_rm().name
    retries = RetryPolicy(total_s=60, pause_s=0.2)
    try:
        async with ApplicationClient.from_conf(conf, user="alice", retry_policy=retries) as rm:
            app = await submit(rm, "exec sleep 300")
            await report_until(rm, app, lambda told: told.launched_ms)
            await asyncio.to_thread(hadoop_pair.kill, dead)
            # The same connection object finds the other, which knows the application.
            assert (await rm.report(app)).id == app
            await kill(rm, app)
        assert hadoop_pair.active_rm().name == {"rm": "rm2", "rm2": "rm"}[dead]
    finally:
        await asyncio.to_thread(hadoop_pair.restart, dead)
