"""Makes connections to ZooKeeper, for masters and for commands.

This is the one place where they make a connection: what a secure ZooKeeper asks for
(SASL, TLS, ACLs of new znodes) is given here. Starters have a client of their own
(``ytf.starter.zookeeper_session``).
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

SESSION_S = 30.0
"""How long a session outlives its connection: a server or the whole ensemble may restart."""
DISCONNECTED = (
    ConnectionLoss,
    SessionExpiredError,
    ConnectionClosedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
"""What calls raise while there is no connection. Whether the call was executed is not known."""
LONGEST_FRAME = 4 * 1000 * 1000
"""The most bytes of an answer: a node has 1 MB, a list of 20,000 containers as much. A longer
one ends the connection before it is read."""

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_PROBE_S = 2.0


def make_client(servers: Sequence[str], *, session_s: float = SESSION_S) -> KazooClient:
    """A client that is not started yet. Once it is, it looks for a connection until it is stopped.

    Paths are absolute: a chroot is a part of them, so that it may be made.
    """
    silent = logging.getLogger("ytf.zookeeper")
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    return KazooClient(
        hosts=",".join(servers),
        timeout=session_s,
        handler=_BoundedHandler(),
        connection_retry={
            "max_tries": -1,
            "delay": _FIRST_WAIT_S,
            "max_delay": _LONGEST_WAIT_S,
            # A session that expired while there was no connection is replaced by another.
            "ignore_expire": True,
        },
        logger=silent,
    )


def was_too_long(client: KazooClient) -> bool:
    """Whether an answer of more than ``LONGEST_FRAME`` has ended a connection of this client."""
    return bool(client.handler.has_refused)


class _BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with connections that read no answer above ``LONGEST_FRAME``."""

    has_refused = False

    def create_connection(self, *arguments: Any, **more: Any) -> _BoundedSocket:
        return _BoundedSocket(super().create_connection(*arguments, **more), self)


class _BoundedSocket:
    """A socket for kazoo, which asks for as many bytes at once as the server says will follow."""

    def __init__(self, sock: socket.socket, handler: _BoundedHandler) -> None:
        self._sock = sock
        self._handler = handler

    def recv(self, size: int) -> bytes:
        """Receive at most ``size`` bytes; an ``OSError``, which kazoo expects, if that is much."""
        if size > LONGEST_FRAME:
            self._handler.has_refused = True
            raise OSError(f"a message of {size} bytes")
        return self._sock.recv(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def end_client(client: KazooClient) -> None:
    """End a client's session, and its threads."""
    # Before its thread has begun to work, kazoo cannot wake it, and need not.
    with contextlib.suppress(AttributeError):
        client.stop()
    client.close()


def explain_unreachable(servers: Sequence[str]) -> str:
    """Why no server can be talked to, as far as connecting to each of them tells."""
    return "; ".join(f"{server}: {_probe(server)}" for server in servers)


def _probe(server: str) -> str:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PROBE_S):
            return "it accepts connections, but gives no session: is it part of a quorum?"
    except socket.gaierror as error:
        return f"the name is not known ({error.strerror})"
    except TimeoutError:
        return f"no answer within {_PROBE_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
