"""The clients of YARN's protocols, against a fake server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from google.protobuf.message import Message

from tests.hadoop.rpc.server import Handler, HangUpError, JavaError, Received, RpcServer
from ytf.errors import OutcomeUnknownError, SettingsError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.proto import client_pb2, ids_pb2, master_pb2, records_pb2, security_pb2
from ytf.hadoop.rpc.client import RpcClient
from ytf.hadoop.rpc.errors import ApplicationNotFoundError, InvalidMasterRequestError
from ytf.hadoop.security.credentials import MASTER_TOKEN, Credentials, Token
from ytf.hadoop.security.login import Login
from ytf.hadoop.yarn import (
    application_client,
    application_master_client,
    container_management_client,
)
from ytf.hadoop.yarn.allocate_request import AllocateRequest
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId
from ytf.hadoop.yarn.records import (
    ApplicationState,
    Container,
    FinalApplicationStatus,
    MasterCommand,
    NodeState,
    NodeToken,
    Resource,
)

APP = ApplicationId(1, 1)
ATTEMPT = AttemptId(APP, 1)
CONTAINER = ContainerId(ATTEMPT, 2)
TOKEN = Token(b"one", b"1", MASTER_TOKEN)
SECOND = Token(b"two", b"2", MASTER_TOKEN)


def answering(*answers: Message | Exception) -> Handler:
    """A handler that gives these answers, the last one for ever."""
    waiting = list(answers)

    async def handler(call: Received) -> Message:
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handler


def client_of(server: RpcServer) -> application_client.ApplicationClient:
    conf = Configuration.of({"yarn.resourcemanager.address": str(server.address)})
    return application_client.ApplicationClient.from_conf(conf, user="alice")


def token_message(token: Token) -> security_pb2.Token:
    return security_pb2.Token(
        identifier=token.identifier, password=token.password, kind=token.kind, service=""
    )


async def test_a_report_with_numbers_nobody_knows_yet() -> None:
    report = client_pb2.ApplicationReport(
        application=APP.to_message(), state=99, final_status=98, diagnostics="N/A", launch_ms=-1
    )
    handlers = {
        "getApplicationReport": answering(client_pb2.GetApplicationReportResponse(report=report))
    }
    async with RpcServer(handlers) as server, client_of(server) as rm:
        told = await rm.report(APP)
    assert (told.state, told.final_status) == (
        ApplicationState.UNKNOWN,
        FinalApplicationStatus.UNKNOWN,
    )
    assert (told.diagnostics, told.launched_ms, told.attempt, told.usage) == ("", 0, None, None)
    assert str(told.state) == "UNKNOWN"


async def test_text_that_is_no_text_is_still_text() -> None:
    raw = b"\x0a\x06\x12\x02\xff\xfe\x40\x05"  # {1: {2: ff fe, 8: 5}}

    async def handler(call: Received) -> Message:
        message = client_pb2.GetApplicationReportResponse()
        message.MergeFromString(raw)
        return message

    async with RpcServer({"getApplicationReport": handler}) as server, client_of(server) as rm:
        told = await rm.report(APP)
    assert isinstance(told.user, str)
    assert told.state is ApplicationState.RUNNING
    assert not told.state.ended


async def test_what_yarn_does_not_know() -> None:
    name = "org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException"
    handlers = {"getApplicationReport": answering(JavaError(name, f"Application {APP} unknown"))}
    async with RpcServer(handlers) as server, client_of(server) as rm:
        with pytest.raises(ApplicationNotFoundError) as caught:
            await rm.report(APP)
    assert isinstance(caught.value, LookupError)


async def test_kill_says_when_it_is_done_and_is_repeated_by_itself() -> None:
    handlers = {
        "forceKillApplication": answering(
            HangUpError(),
            client_pb2.KillApplicationResponse(),
            client_pb2.KillApplicationResponse(completed=True),
        )
    }
    async with RpcServer(handlers) as server:
        conf = Configuration.of(
            {
                "yarn.resourcemanager.ha.enabled": "true",
                "yarn.resourcemanager.ha.rm-ids": "a,b",
                "yarn.resourcemanager.address.a": str(server.address),
                "yarn.resourcemanager.address.b": str(server.address),
            }
        )
        async with application_client.ApplicationClient.from_conf(conf, user="alice") as rm:
            assert await rm.kill(APP, "because") is False
            assert await rm.kill(APP) is True
        request = client_pb2.KillApplicationRequest.FromString(server.received[0].request)
    assert request.diagnostics == "because"
    assert len(server.received) == 3


async def test_listing_asks_for_just_what_it_was_told() -> None:
    handlers = {"getApplications": answering(client_pb2.GetApplicationsResponse())}
    async with RpcServer(handlers) as server, client_of(server) as rm:
        await rm.applications(types=["YTF"], states=[ApplicationState.RUNNING], limit=5)
        request = client_pb2.GetApplicationsRequest.FromString(server.received[0].request)
    assert (list(request.types), list(request.states), request.limit) == (["YTF"], [5], 5)


async def test_a_queue_that_is_not_there() -> None:
    handlers = {"getQueueInfo": answering(client_pb2.GetQueueInfoResponse())}
    async with RpcServer(handlers) as server, client_of(server) as rm:
        assert await rm.queue("nope") is None


def master_of(
    server: RpcServer, token: Token = TOKEN
) -> application_master_client.ApplicationMasterClient:
    conf = Configuration.of(
        {
            "yarn.resourcemanager.scheduler.address": str(server.address),
            "yarn.resourcemanager.connect.max-wait.ms": "0",
        }
    )
    return application_master_client.ApplicationMasterClient.from_conf(conf, token)


def sent(server: RpcServer) -> list[master_pb2.AllocateRequest]:
    return [
        master_pb2.AllocateRequest.FromString(call.request)
        for call in server.received
        if call.method.method == "allocate"
    ]


async def test_beats_carry_the_last_answers_number_and_are_repeated_with_the_same() -> None:
    handlers = {
        "registerApplicationMaster": answering(master_pb2.RegisterResponse(queue="q")),
        "allocate": answering(
            master_pb2.AllocateResponse(response_id=1),
            HangUpError(),
            master_pb2.AllocateResponse(response_id=2),
            master_pb2.AllocateResponse(response_id=7),
        ),
    }
    async with RpcServer(handlers, token=TOKEN) as server, master_of(server) as rm:
        assert (await rm.register("h", -1, "")).queue == "q"
        for _ in range(3):
            await rm.allocate(AllocateRequest(progress=0.5))
        assert [each.response_id for each in sent(server)] == [0, 1, 1, 2]
        await rm.register("h", -1, "")
        await rm.allocate(AllocateRequest())
        assert sent(server)[-1].response_id == 0


async def test_a_beat_that_failed_keeps_its_number() -> None:
    name = "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException"
    handlers = {
        "allocate": answering(
            master_pb2.AllocateResponse(response_id=4),
            JavaError(name, "no"),
            master_pb2.AllocateResponse(response_id=5),
        )
    }
    async with RpcServer(handlers, token=TOKEN) as server, master_of(server) as rm:
        await rm.allocate(AllocateRequest())
        with pytest.raises(InvalidMasterRequestError):
            await rm.allocate(AllocateRequest())
        await rm.allocate(AllocateRequest())
        assert [each.response_id for each in sent(server)] == [0, 4, 4]


async def test_a_renewed_token_opens_the_next_connection() -> None:
    renewal = master_pb2.AllocateResponse(response_id=1, master_token=token_message(SECOND))
    handlers = {"allocate": answering(renewal)}
    async with RpcServer(handlers, token=TOKEN) as server, master_of(server) as rm:
        await rm.allocate(AllocateRequest())
        assert rm.token == SECOND
        server.token = SECOND
        # It comes with every answer until it is used; that is no reason to reconnect again.
        await rm.allocate(AllocateRequest())
        await rm.allocate(AllocateRequest())
        assert server.connections == 2


async def test_registering_is_never_repeated_by_itself() -> None:
    handlers = {"registerApplicationMaster": answering(HangUpError())}
    async with RpcServer(handlers, token=TOKEN) as server, master_of(server) as rm:
        with pytest.raises(OutcomeUnknownError):
            await rm.register("h", -1, "")
        assert len(server.received) == 1


async def test_everything_a_beat_can_bring() -> None:
    preemption = master_pb2.Preemption()
    preemption.strict.containers.add(container=CONTAINER.to_message())
    preemption.negotiable.containers.add(container=CONTAINER.to_message())
    answer = master_pb2.AllocateResponse(
        response_id=1,
        command=2,
        preemption=preemption,
        num_cluster_nodes=3,
        headroom=Resource(5, 6).to_message(),
        completed=[records_pb2.ContainerStatus(container=CONTAINER.to_message(), state=3)],
        updated_nodes=[
            records_pb2.NodeReport(
                node=ids_pb2.NodeId(host="h", port=1), state=7, decommissioning_timeout_s=9
            )
        ],
    )
    rejected = records_pb2.SchedulingRequest(allocation_request_id=12)
    answer.rejected.add(reason=1, request=rejected)
    async with (
        RpcServer({"allocate": answering(answer)}, token=TOKEN) as server,
        master_of(server) as rm,
    ):
        told = await rm.allocate(AllocateRequest())
    assert told.command is MasterCommand.SHUTDOWN
    assert told.preempted == told.preemptable == (CONTAINER,)
    assert (told.rejected, told.cluster_nodes, told.headroom) == ((12,), 3, Resource(5, 6))
    assert told.completed[0].exit_status == -1000
    [updated] = told.updated_nodes
    assert (updated.state, updated.decommissioning_timeout_s) == (NodeState.DECOMMISSIONING, 9)
    assert updated.state.usable


def test_the_masters_own_token_tells_its_attempt() -> None:
    identifier = security_pb2.MasterTokenIdentifier(attempt=ATTEMPT.to_message(), key_id=7)
    token = Token(identifier.SerializeToString(), b"", MASTER_TOKEN)
    credentials = Credentials({"": token, "x": Token(b"", b"", "X")})
    assert (
        application_master_client.attempt_of(application_master_client.master_token(credentials))
        == ATTEMPT
    )
    with pytest.raises(SettingsError, match="contain no YARN_AM_RM_TOKEN"):
        application_master_client.master_token(Credentials())
    with pytest.raises(SettingsError, match="cannot be read"):
        application_master_client.attempt_of(Token(b"\xff\xff", b"", MASTER_TOKEN))


def node_of(server: RpcServer) -> container_management_client.ContainerManagementClient:
    where = NodeId(server.address.host, server.address.port)
    return container_management_client.ContainerManagementClient(NodeToken(where, TOKEN))


def container() -> Container:
    return Container(
        id=CONTAINER,
        node=NodeId("h", 1),
        node_http_address="",
        resource=Resource(1, 1),
        priority=0,
        allocation_request_id=0,
        token=Token(b"c", b"p", "ContainerToken", "s"),
    )


async def test_starting_fails_for_each_container_on_its_own() -> None:
    answer = master_pb2.StartContainersResponse(succeeded=[CONTAINER.to_message()])
    answer.failed.add(
        container=CONTAINER.to_message(),
        exception=records_pb2.SerializedException(message=" why \n", class_name="java.X"),
    )
    async with (
        RpcServer({"startContainers": answering(answer)}, token=TOKEN) as server,
        node_of(server) as nm,
    ):
        done = await nm.start([(container(), ContainerLaunchContext(command="exec true"))])
        request = master_pb2.StartContainersRequest.FromString(server.received[0].request)
    assert done.succeeded == (CONTAINER,)
    assert [(each.class_name, each.message) for each in done.failed] == [("java.X", "why")]
    assert request.requests[0].container_token.identifier == b"c"


@pytest.mark.parametrize(
    ("act", "repeated"),
    [
        (lambda nm: nm.start([(container(), ContainerLaunchContext(command="x"))]), False),
        (lambda nm: nm.stop([CONTAINER]), True),
        (lambda nm: nm.statuses([CONTAINER]), True),
    ],
)
async def test_only_what_may_be_is_repeated(
    act: Callable[[container_management_client.ContainerManagementClient], Awaitable[object]],
    repeated: bool,
) -> None:
    names = ("startContainers", "stopContainers")
    handlers = {name: answering(HangUpError()) for name in names}
    handlers["getContainerStatuses"] = answering(
        master_pb2.GetContainerStatusesResponse(), HangUpError()
    )
    async with RpcServer(handlers, token=TOKEN) as server, node_of(server) as nm:
        # On a connection that is open: there a break deserves a second try, if at all.
        await nm.statuses([CONTAINER])
        with pytest.raises(OutcomeUnknownError):
            await act(nm)
        assert len(server.received) == (3 if repeated else 2)


async def test_a_later_node_token_takes_over() -> None:
    answer = master_pb2.GetContainerStatusesResponse(
        statuses=[
            records_pb2.ContainerStatus(
                container=CONTAINER.to_message(), state=2, diagnostics="N/A"
            )
        ]
    )
    handlers = {"getContainerStatuses": answering(answer)}
    async with RpcServer(handlers, token=TOKEN) as server, node_of(server) as nm:
        statuses, failed = await nm.statuses([CONTAINER])
        assert (statuses[CONTAINER].diagnostics, failed) == ("", ())
        nm.renew(TOKEN)
        server.token = SECOND
        nm.renew(SECOND)
        await nm.statuses([CONTAINER])
        assert server.connections == 2


async def test_a_service_that_is_closed_opens_again_when_called() -> None:
    handlers = {"getClusterMetrics": answering(client_pb2.GetClusterMetricsResponse())}
    async with RpcServer(handlers) as server:
        service = RpcClient([server.address], application_client.PROTOCOL, Login(user="a"))
        await service.close()
        await service.call(application_client._METRICS, client_pb2.GetClusterMetricsRequest())
        await service.close()
        await service.call(application_client._METRICS, client_pb2.GetClusterMetricsRequest())
        await service.close()
    assert server.connections == 2
