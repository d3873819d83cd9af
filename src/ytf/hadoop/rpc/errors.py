"""What can become of a call that did not succeed.

::

    RefusedError (ytf)
    ├── RemoteError              the server answered with an exception
    │   ├── StandbyError           it is not the active one
    │   ├── RetriableError         it says: later, or elsewhere
    │   ├── NoSuchMethodError      it is too old (or too new) for this method
    │   ├── AccessDeniedError      this user may not
    │   ├── InvalidTokenError      it does not know the token, or no longer
    │   ├── ApplicationNotFoundError (also NotFoundError) …
    │   └── … what YARN says, below
    └── AuthenticationError      we and the server found no way to trust each other
    UnreachableError (ytf)
    └── NotExecutedError         no connection, or the call was never sent
    OutcomeUnknownError (ytf)    sent, and no answer came

Only the last leaves open whether the server did what it was asked.
"""

from __future__ import annotations

from typing import ClassVar

from ytf.errors import NotFoundError, OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.proto.rpc_pb2 import ResponseHeader
from ytf.hadoop.proto.wire import text

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
    """The server answered with an exception instead of doing what it was asked.

    ``str(error)`` is the exception's own first line. ``detail`` is the RPC
    layer's number for the kind of failure, 0 if it gave none.
    """

    java: ClassVar[tuple[str, ...]] = ()
    """The names of the Java classes that come as this one."""

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
    """The server did nothing and asks to be tried again."""

    java = ("org.apache.hadoop.ipc.RetriableException",)


class NoSuchMethodError(RemoteError):
    """The server does not know the method: it is of another version."""

    java = ("org.apache.hadoop.ipc.RpcNoSuchMethodException",)


class AccessDeniedError(RemoteError):
    """The user may not do this."""

    java = (
        "org.apache.hadoop.security.AccessControlException",
        "org.apache.hadoop.security.authorize.AuthorizationException",
    )


class InvalidTokenError(RemoteError):
    """The token is unknown, expired, or of an attempt that is over."""

    java = ("org.apache.hadoop.security.token.SecretManager$InvalidToken",)


class ApplicationNotFoundError(RemoteError, NotFoundError):
    """The ResourceManager knows no such application, or no longer."""

    java = ("org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException",)


class AttemptNotFoundError(RemoteError, NotFoundError):
    """This attempt of the application is over."""

    java = ("org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException",)


class ContainerNotFoundError(RemoteError, NotFoundError):
    """There is no such container."""

    java = ("org.apache.hadoop.yarn.exceptions.ContainerNotFoundException",)


class NotRegisteredError(RemoteError):
    """The ResourceManager has forgotten this master: it must register again."""

    java = ("org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException",)


class InvalidMasterRequestError(RemoteError):
    """Registered twice, or a response id that is not the last one."""

    java = ("org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException",)


class InvalidResourceRequestError(RemoteError):
    """The cluster can never give what was asked for."""

    java = (
        "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException",
        "org.apache.hadoop.yarn.exceptions.InvalidLabelResourceRequestException",
    )


class NodeNotReadyError(RemoteError):
    """The NodeManager has just started and waits for the ResourceManager."""

    java = ("org.apache.hadoop.yarn.exceptions.NMNotYetReadyException",)


class AuthenticationError(RefusedError):
    """The server's ways to prove who one is, and ours, did not meet."""


class NotExecutedError(UnreachableError):
    """The call never reached a server: it can safely be made again, anywhere."""


_BY_CLASS: dict[str, type[RemoteError]] = {
    name: kind for kind in RemoteError.__subclasses__() for name in kind.java
}


def remote_error(header: ResponseHeader) -> RemoteError:
    """The error in the header of an answer."""
    class_name = text(header.exception_class)
    return error_of(class_name, text(header.error_message), detail=header.error_detail)


def error_of(class_name: str, message: str, *, detail: int = 0) -> RemoteError:
    """A Java exception as an error of ours. Its message may carry a stack trace."""
    first, _, trace = message.partition("\n")
    # Some messages repeat their class before the sentence; those of ``RPCUtil.getRemoteException``
    # have the class that counts there, and one that only wraps it in its place.
    told, colon, rest = first.partition(": ")
    if colon and told in (class_name, *_BY_CLASS):
        class_name, first = told, rest
    sentence = first.strip() or class_name or "no reason given"
    kind = _BY_CLASS.get(class_name, RemoteError)
    return kind(sentence, class_name=class_name, detail=detail, trace=trace)
