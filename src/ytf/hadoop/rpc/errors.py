"""The errors of a call, by what is known of its outcome.

::

    RefusedError (ytf)
    ├── RemoteError              the server answered with an exception
    │   ├── StandbyError           the server is not the active one
    │   ├── RetriableError         the server asks for a retry
    │   ├── NoSuchMethodError      the server's version does not have the method
    │   ├── AccessDeniedError      the user has no permission
    │   ├── InvalidTokenError      the server does not know the token (any more)
    │   ├── ApplicationNotFoundError (also NotFoundError) …
    │   └── … YARN's exceptions, below
    └── AuthenticationError      no common authentication, or it failed
    UnreachableError (ytf)
    └── NotExecutedError         no connection, or the call was never sent
    OutcomeUnknownError (ytf)    the call was sent, and no answer came

Only after the last one it is unknown whether the server executed the call.
"""

from __future__ import annotations

from typing import ClassVar

from ytf.errors import NotFoundError, OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.proto.messages import text
from ytf.hadoop.proto.rpc_pb2 import ResponseHeader

__all__ = [
    "AccessDeniedError",
    "ApplicationNotFoundError",
    "AttemptNotFoundError",
    "AuthenticationError",
    "ContainerNotFoundError",
    "InvalidMasterRequestError",
    "InvalidResourceRequestError",
    "InvalidTokenError",
    "NoSuchMethodError",
    "NodeNotReadyError",
    "NotExecutedError",
    "NotRegisteredError",
    "OutcomeUnknownError",
    "RemoteError",
    "RetriableError",
    "StandbyError",
    "remote_error",
]

FATAL_UNAUTHORIZED = 15


class RemoteError(RefusedError):
    """The server answered with an exception.

    ``str(error)`` is the first line of the exception. ``detail`` is the RPC
    layer's error code, 0 if there is none.
    """

    java: ClassVar[tuple[str, ...]] = ()
    """The names of the Java exceptions that become this error."""

    def __init__(
        self, message: str, *, class_name: str = "", detail: int = 0, trace: str = ""
    ) -> None:
        super().__init__(message)
        self.class_name = class_name
        self.detail = detail
        self.trace = trace


class StandbyError(RemoteError):
    """This daemon is not the active one of its pair."""

    java = ("org.apache.hadoop.ipc.StandbyException",)


class RetriableError(RemoteError):
    """The server did not execute the call and asks for a retry."""

    java = ("org.apache.hadoop.ipc.RetriableException",)


class NoSuchMethodError(RemoteError):
    """The server does not have the method: it is of another version."""

    java = ("org.apache.hadoop.ipc.RpcNoSuchMethodException",)


class AccessDeniedError(RemoteError):
    """The user has no permission to do this."""

    java = (
        "org.apache.hadoop.security.AccessControlException",
        "java.security.AccessControlException",
        "org.apache.hadoop.security.authorize.AuthorizationException",
    )


class InvalidTokenError(RemoteError):
    """The token is unknown, expired, or of an attempt that is over."""

    java = ("org.apache.hadoop.security.token.SecretManager$InvalidToken",)


class ApplicationNotFoundError(RemoteError, NotFoundError):
    """The ResourceManager does not know the application (any more)."""

    java = ("org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException",)


class AttemptNotFoundError(RemoteError, NotFoundError):
    """This attempt of the application is over."""

    java = ("org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException",)


class ContainerNotFoundError(RemoteError, NotFoundError):
    """There is no such container."""

    java = ("org.apache.hadoop.yarn.exceptions.ContainerNotFoundException",)


class NotRegisteredError(RemoteError):
    """The ResourceManager does not know this master (any more): it must register again."""

    java = ("org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException",)


class InvalidMasterRequestError(RemoteError):
    """The master registered twice, or sent a response id that is not the last one."""

    java = ("org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException",)


class InvalidResourceRequestError(RemoteError):
    """The cluster can never allocate the requested resources."""

    java = (
        "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException",
        "org.apache.hadoop.yarn.exceptions.InvalidLabelResourceRequestException",
    )


class NodeNotReadyError(RemoteError):
    """The NodeManager has just started and waits for the ResourceManager."""

    java = ("org.apache.hadoop.yarn.exceptions.NMNotYetReadyException",)


class AuthenticationError(RefusedError):
    """We and the server have no common authentication method, or authentication failed."""


class NotExecutedError(UnreachableError):
    """The call never reached a server: it can be repeated, also on another server."""


_BY_CLASS: dict[str, type[RemoteError]] = {
    name: kind for kind in RemoteError.__subclasses__() for name in kind.java
}


def remote_error(header: ResponseHeader) -> RemoteError:
    """The error in the header of an answer."""
    class_name = text(header.exception_class)
    return error_of(class_name, text(header.error_message), detail=header.error_detail)


def error_of(class_name: str, message: str, *, detail: int = 0) -> RemoteError:
    """The error for a Java exception. Its message may contain a stack trace."""
    first, _, trace = message.partition("\n")
    # Some messages begin with their class. In those of ``RPCUtil.getRemoteException`` that
    # is the class that counts: ``class_name`` is only a wrapper.
    prefix, colon, rest = first.partition(": ")
    if colon and prefix in (class_name, *_BY_CLASS):
        class_name, first = prefix, rest
    sentence = first.strip() or class_name or "no reason given"
    kind = _BY_CLASS.get(class_name, RemoteError)
    return kind(sentence, class_name=class_name, detail=detail, trace=trace)
