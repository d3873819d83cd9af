"""``ApplicationMasterClient``: registers a master and asks for containers.

For an application's master. The protocol is ``ApplicationMasterProtocol``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.conf import Configuration, RmService, rm_addresses
from ytf.hadoop.proto import master_pb2 as pb
from ytf.hadoop.proto.messages import MalformedMessageError, parse
from ytf.hadoop.proto.security_pb2 import MasterTokenIdentifier
from ytf.hadoop.rpc.client import RetryPolicy, RpcClient, master_retry_policy, rpc_settings
from ytf.hadoop.rpc.connection import Method
from ytf.hadoop.security.credentials import MASTER_TOKEN, Credentials, Token
from ytf.hadoop.security.login import Login
from ytf.hadoop.yarn import decode
from ytf.hadoop.yarn.allocate_request import AllocateRequest
from ytf.hadoop.yarn.ids import AttemptId
from ytf.hadoop.yarn.records import AllocateResponse, FinalApplicationStatus, RegisterResponse

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB"

# A second registration is refused, so it must not be repeated automatically. A repeated
# heartbeat is recognised by its response id.
_REGISTER = Method("registerApplicationMaster", pb.RegisterRequest, pb.RegisterResponse, False)
_ALLOCATE = Method("allocate", pb.AllocateRequest, pb.AllocateResponse, True)
_FINISH = Method("finishApplicationMaster", pb.FinishRequest, pb.FinishResponse, True)


class ApplicationMasterClient:
    """A master's client of the ResourceManager, for one attempt.

    It keeps the response id and the token, which the ResourceManager renews in
    heartbeats. Make one call at a time. After ``NotRegisteredError`` register
    again and repeat all requests. ``AttemptNotFoundError`` and
    ``InvalidTokenError`` mean that this attempt is over.
    """

    def __init__(self, rpc: RpcClient, login: Login) -> None:
        self._rpc = rpc
        self._login = login
        self._response_id = 0

    @classmethod
    def from_conf(
        cls,
        conf: Configuration,
        token: Token,
        *,
        retry_policy: RetryPolicy | None = None,
        caller: str = "ytf",
    ) -> ApplicationMasterClient:
        """A client for the attempt of a token.

        The default retry policy is that of the cluster's configuration.
        """
        # This port accepts only tokens, also on clusters without security.
        login = Login(user="", token=token, secure=True)
        rpc = RpcClient(
            rm_addresses(conf, RmService.SCHEDULER),
            PROTOCOL,
            login,
            settings=rpc_settings(conf, caller=caller),
            retry_policy=retry_policy or master_retry_policy(conf),
        )
        return cls(rpc, login)

    async def register(self, host: str, port: int, tracking_url: str) -> RegisterResponse:
        """Register this attempt's master. ``port`` is -1 if it has none.

        Not idempotent: a second registration is refused
        (``InvalidMasterRequestError``), except after ``NotRegisteredError``.
        """
        request = pb.RegisterRequest(host=host, rpc_port=port, tracking_url=tracking_url)
        answer = await self._rpc.call(_REGISTER, request)
        self._response_id = 0
        return decode.register_response(answer)

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        """Send a heartbeat. After ``OutcomeUnknownError`` repeat the same request."""
        answer = await self._rpc.call(_ALLOCATE, request.to_message(self._response_id))
        self._response_id = answer.response_id
        response = decode.allocate_response(answer)
        if response.master_token is not None and response.master_token != self._login.token:
            # This connection would stay valid with the old token; the next one would not.
            self._login = msgspec.structs.replace(self._login, token=response.master_token)
            self._rpc.relogin(self._login)
        return response

    async def finish(
        self, status: FinalApplicationStatus, diagnostics: str, tracking_url: str
    ) -> bool:
        """Unregister at the end of the application. Repeat the call until it returns true.

        Soon after that the ResourceManager ends this attempt's container.
        """
        request = pb.FinishRequest(
            diagnostics=diagnostics, tracking_url=tracking_url, final_status=status
        )
        return (await self._rpc.call(_FINISH, request)).unregistered

    @property
    def token(self) -> Token | None:
        """The latest token."""
        return self._login.token

    async def close(self) -> None:
        """Close the connection."""
        await self._rpc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def master_token(credentials: Credentials) -> Token:
    """The master's token for the ResourceManager; raises ``SettingsError`` if there is none."""
    found = credentials.of_kind(MASTER_TOKEN)
    if not found:
        raise SettingsError(
            f"these credentials contain no {MASTER_TOKEN}",
            hint="a master runs in the container that YARN starts for it",
        )
    return found[0]


def attempt_of(token: Token) -> AttemptId:
    """The attempt of a master's token: the most reliable source of a master's own attempt id."""
    try:
        return AttemptId.from_message(parse(MasterTokenIdentifier, token.identifier).attempt)
    except MalformedMessageError as exc:
        raise SettingsError(f"the {token.kind} cannot be read: {exc}") from exc
