"""What a master says to the ResourceManager (``ApplicationMasterProtocol``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.addresses import RmService, rm_addresses
from ytf.hadoop.conf import Configuration
from ytf.hadoop.proto import master_pb2 as pb
from ytf.hadoop.proto.security_pb2 import MasterTokenIdentifier
from ytf.hadoop.proto.wire import MalformedError, parse
from ytf.hadoop.rpc.failover import Service
from ytf.hadoop.rpc.method import Method
from ytf.hadoop.rpc.settings import Patience, master_patience, rpc_settings
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.security.login import Login
from ytf.hadoop.security.tokens import MASTER_TOKEN, Token
from ytf.hadoop.yarn import decode
from ytf.hadoop.yarn.asks import Beat
from ytf.hadoop.yarn.ids import AttemptId
from ytf.hadoop.yarn.records import Allocation, FinalStatus, Registration

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB"

# A second registration is refused, so a lost answer must not lead to one by
# itself. A repeated heartbeat is recognised by its response id.
_REGISTER = Method("registerApplicationMaster", pb.RegisterRequest, pb.RegisterResponse, False)
_ALLOCATE = Method("allocate", pb.AllocateRequest, pb.AllocateResponse, True)
_FINISH = Method("finishApplicationMaster", pb.FinishRequest, pb.FinishResponse, True)


class MasterProtocol:
    """One attempt's line to the ResourceManager.

    Keeps the two things that are easy to get wrong: the response id, and the
    token, which the ResourceManager renews within heartbeats. One call at a
    time. ``NotRegisteredError`` means: register again and repeat everything
    asked for; ``AttemptNotFoundError`` and ``InvalidTokenError``: this attempt
    is over.
    """

    def __init__(self, service: Service, login: Login) -> None:
        self._service = service
        self._login = login
        self._response_id = 0

    @classmethod
    def from_conf(
        cls,
        conf: Configuration,
        token: Token,
        *,
        patience: Patience | None = None,
        caller: str = "ytf",
    ) -> MasterProtocol:
        """One for the attempt whose token this is, at the container's own configuration.

        Waits for a ResourceManager as long as the cluster says a master should,
        unless told otherwise.
        """
        # This port takes tokens only, on secure clusters and others.
        login = Login(user="", token=token, secure=True)
        service = Service(
            rm_addresses(conf, RmService.SCHEDULER),
            PROTOCOL,
            login,
            settings=rpc_settings(conf, caller=caller),
            patience=patience or master_patience(conf),
        )
        return cls(service, login)

    async def register(self, host: str, port: int, tracking_url: str) -> Registration:
        """Say that this attempt's master is here. ``port`` -1: it has none.

        Not idempotent: the second time is refused (``InvalidMasterRequestError``),
        but after ``NotRegisteredError`` it is what must be done.
        """
        request = pb.RegisterRequest(host=host, rpc_port=port, tracking_url=tracking_url)
        answer = await self._service.call(_REGISTER, request)
        self._response_id = 0
        return decode.registration(answer)

    async def allocate(self, beat: Beat) -> Allocation:
        """A heartbeat. If it raises ``OutcomeUnknownError``, repeat the very same beat."""
        answer = await self._service.call(_ALLOCATE, beat.to_message(self._response_id))
        self._response_id = answer.response_id
        told = decode.allocation(answer)
        if told.master_token is not None and told.master_token != self._login.token:
            # A connection lives on with the old token, but the next one could not.
            self._login = msgspec.structs.replace(self._login, token=told.master_token)
            self._service.relogin(self._login)
        return told

    async def finish(self, status: FinalStatus, diagnostics: str, tracking_url: str) -> bool:
        """Say that the application is over; true once that is kept, until then repeat.

        After that the ResourceManager ends this attempt's container soon.
        """
        request = pb.FinishRequest(
            diagnostics=diagnostics, tracking_url=tracking_url, final_status=status
        )
        return (await self._service.call(_FINISH, request)).unregistered

    @property
    def token(self) -> Token | None:
        """The token as last renewed."""
        return self._login.token

    async def close(self) -> None:
        """Close the connection."""
        await self._service.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def master_token(credentials: Credentials) -> Token:
    """The token that makes this process a master; raises ``SettingsError`` without one."""
    found = credentials.of_kind(MASTER_TOKEN)
    if not found:
        raise SettingsError(
            f"these credentials hold no {MASTER_TOKEN}",
            hint="a master runs in the container that YARN starts for it",
        )
    return found[0]


def attempt_of(token: Token) -> AttemptId:
    """Whose master the bearer of a token is: the surest source of one's own attempt id."""
    try:
        return AttemptId.from_message(parse(MasterTokenIdentifier, token.identifier).attempt)
    except MalformedError as exc:
        raise SettingsError(f"the {token.kind} cannot be read: {exc}") from exc
