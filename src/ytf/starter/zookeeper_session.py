"""A session with ZooKeeper: the few calls that the znode of a task needs.

ZooKeeper's clients are larger than a starter, and slower to load than one takes to
start. The protocol is length-prefixed records of big-endian numbers, strings and
buffers; a connection carries answers in the order of the calls, and between them
events of watches.

What a server sends is bounded, and whatever is wrong with it is a :class:`ConnectionLostError`.
"""

from __future__ import annotations

import random
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence, Set, Tuple

CONNECT_S = 2.0
"""How long one server may take to accept a connection, and to give a session."""
LONGEST_FRAME = 1100 * 1000
"""The most bytes of an answer: a znode of 1 MB, and what comes with it."""
LONGEST_EVENT = 8192
MOST_EVENTS = 1000
"""How many messages that answer neither a call nor a ping are taken in between two calls."""
LONGEST_SESSION_S = 300.0
"""What a server grants may be more than was asked for, but not that much more."""

NO_NODE = -101
NODE_EXISTS = -110
_ERRORS = {
    NO_NODE: "there is no such znode",
    -102: "no permission (NoAuth)",
    -103: "somebody else has changed it (BadVersion)",
    -108: "an ephemeral znode has none below it",
    NODE_EXISTS: "the znode exists already",
    -111: "there are znodes below it (NotEmpty)",
    -115: "the credentials are not accepted (AuthFailed)",
    -125: "a quota is exceeded",
}
_CREATE, _DELETE, _EXISTS, _GET, _SET, _PING, _CLOSE = 1, 2, 3, 4, 5, 11, -11
_EVENT_XID, _PING_XID = -1, -2
_EPHEMERAL = 1
_ANY_VERSION = -1
_NO_PASSWORD = bytes(16)
_HEADER = struct.Struct(">iqi")
_STAT = struct.Struct(">qqqqiiiqiiq")


class ConnectionLostError(Exception):
    """There is no connection. Whether the last call was executed is not known."""


class ZooKeeperError(Exception):
    """A server refused a call; ``code`` is ZooKeeper's."""

    def __init__(self, code: int) -> None:
        super().__init__(_ERRORS.get(code, "error %d" % code))
        self.code = code


class NodeStat:
    """What ZooKeeper says of a znode. ``owner`` is the session of an ephemeral znode, else 0."""

    __slots__ = ("changed", "length", "owner")

    def __init__(self, data: bytes) -> None:
        _, self.changed, _, _, _, _, _, self.owner, self.length, _, _ = _STAT.unpack_from(
            _padded(data, _STAT.size)
        )


class ZooKeeperSession:
    """One session with an ensemble, for one thread.

    After :meth:`connect` it is the same session as before if that has not expired.
    ``id`` tells. A connection's watches end with it.
    """

    def __init__(self, servers: Sequence[str], session_s: float) -> None:
        self.id = 0
        self._servers = random.sample(list(servers), len(servers))
        self._asked_s = self._granted_s = session_s
        self._password = _NO_PASSWORD
        self._last_zxid = 0
        self._socket: Optional[socket.socket] = None
        self._xid = 0
        self._watched: Set[str] = set()
        self._changed: Set[str] = set()
        self._events = 0
        self._pings = 0
        self._sent_at = self._heard_at = 0.0

    def connect(self) -> None:
        """Connect to the first server that gives a session, or raise why none does."""
        self.drop()
        problems = []
        for server in list(self._servers):
            problem = self._problem_with(server)
            if problem is None:
                return
            problems.append("%s: %s" % (server, problem))
            # The next attempt begins with another one.
            self._servers.append(self._servers.pop(0))
        raise ConnectionLostError("; ".join(problems))

    def exists(self, path: str) -> Optional[NodeStat]:
        """Return what is known of a znode, None if there is none; watch it for one change."""
        self._watched.add(path)
        try:
            return NodeStat(self._call(_EXISTS, _text(path) + b"\x01"))
        except ZooKeeperError as exc:
            if exc.code == NO_NODE:
                return None
            raise

    def get(self, path: str) -> Tuple[bytes, NodeStat]:
        """Return the data of a znode, and what is known of it."""
        answer = self._call(_GET, _text(path) + b"\x00")
        (size,) = struct.unpack_from(">i", _padded(answer, 4))
        size = max(size, 0)
        return answer[4 : 4 + size], NodeStat(answer[4 + size :])

    def create(self, path: str, data: bytes) -> None:
        """Make a znode that ends with this session. Everybody may do everything with it."""
        everybody = struct.pack(">ii", 1, 31) + _text("world") + _text("anyone")
        self._call(_CREATE, _text(path) + _buffer(data) + everybody + struct.pack(">i", _EPHEMERAL))

    def set(self, path: str, data: bytes) -> None:
        """Give a znode other data."""
        self._call(_SET, _text(path) + _buffer(data) + struct.pack(">i", _ANY_VERSION))

    def delete(self, path: str) -> None:
        """Remove a znode."""
        self._call(_DELETE, _text(path) + struct.pack(">i", _ANY_VERSION))

    def fileno(self) -> int:
        """The descriptor of the connection, for ``select``."""
        if self._socket is None:
            raise ConnectionLostError("there is no connection")
        return self._socket.fileno()

    def take_events(self) -> Set[str]:
        """Return the paths of watched znodes that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def receive(self) -> None:
        """Take in what the server has sent. Waits for it: ``select`` tells when there is some."""
        if self._take(self._read_frame(time.monotonic() + self._granted_s / 3)) is not None:
            raise ConnectionLostError("an answer to no call")

    def keep_alive(self) -> float:
        """Send a ping if one is due; returns the seconds until the next."""
        now = time.monotonic()
        if now > self._heard_at + self._granted_s * 2 / 3:
            raise ConnectionLostError("no answer for %.0f s" % (now - self._heard_at))
        due_s = self._sent_at + self._granted_s / 3 - now
        if due_s > 0:
            return due_s
        self._send(struct.pack(">ii", _PING_XID, _PING))
        self._pings += 1
        return self._granted_s / 3

    def close(self) -> None:
        """End the session, and with it the znodes that it has made."""
        try:
            self._call(_CLOSE, b"")
        except (ConnectionLostError, ZooKeeperError):
            return  # the session ends by itself
        finally:
            self.drop()

    def drop(self) -> None:
        """End the connection, not the session."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _problem_with(self, server: str) -> Optional[str]:
        """Connect to one server; returns why that cannot be."""
        try:
            self._connect_to(server)
        except (OSError, ConnectionLostError) as exc:
            self.drop()
            return _reason(exc)
        return None

    def _connect_to(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked_ms = int(self._asked_s * 1000)
        self._send(
            struct.pack(">iqiq", 0, self._last_zxid, asked_ms, self.id)
            + _buffer(self._password)
            + b"\x00"
        )
        try:
            answer = self._read_frame(time.monotonic() + CONNECT_S)
        except _ClosedError:
            raise ConnectionLostError(
                "it accepts connections, but gives no session: is it part of a quorum?"
            ) from None
        _, granted_ms, session, size = struct.unpack_from(">iiqi", _padded(answer, 20))
        if granted_ms <= 0 or size != len(_NO_PASSWORD):
            # It has expired: the next one is another session.
            self.id, self._password = 0, _NO_PASSWORD
            raise ConnectionLostError("the session has expired")
        self.id, self._password = session, _padded(answer[20:36], 16)
        self._granted_s = min(max(1.0, granted_ms / 1000), LONGEST_SESSION_S)
        self._changed = set()
        self._events = self._pings = 0

    def _call(self, operation: int, body: bytes) -> bytes:
        self._xid = self._xid % 0x7FFFFFFF + 1
        self._send(struct.pack(">ii", self._xid, operation) + body)
        deadline = time.monotonic() + self._granted_s * 2 / 3
        answer = None
        while answer is None:
            answer = self._take(self._read_frame(deadline))
        self._events = 0
        xid, zxid, error = _HEADER.unpack_from(answer)
        if xid != self._xid:
            raise ConnectionLostError("an answer to another call")
        if zxid > 0:
            self._last_zxid = zxid
        if error:
            raise ZooKeeperError(error)
        return answer[_HEADER.size :]

    def _take(self, frame: bytes) -> Optional[bytes]:
        """Return a frame that answers a call; None for an event, which is noted, or a ping."""
        xid, _, _ = _HEADER.unpack_from(_padded(frame, _HEADER.size))
        if xid not in (_EVENT_XID, _PING_XID):
            return frame
        if xid == _PING_XID and self._pings:
            self._pings -= 1  # asked for, however long no call was made
            return None
        self._events += 1
        if self._events > MOST_EVENTS or len(frame) > LONGEST_EVENT:
            raise ConnectionLostError("more events than ever were asked for")
        if xid == _EVENT_XID:
            body = frame[_HEADER.size :]
            (size,) = struct.unpack_from(">i", _padded(body, 12), 8)
            path = body[12 : 12 + max(0, size)].decode("utf-8", "replace")
            if path in self._watched:
                self._changed.add(path)
        return None

    def _send(self, message: bytes) -> None:
        if self._socket is None:
            raise ConnectionLostError("there is no connection")
        self._sent_at = time.monotonic()
        try:
            self._socket.settimeout(self._granted_s / 3)
            self._socket.sendall(struct.pack(">i", len(message)) + message)
        except OSError as exc:
            self.drop()
            raise ConnectionLostError(_reason(exc)) from exc

    def _read_frame(self, deadline: float) -> bytes:
        (size,) = struct.unpack(">i", self._read(4, deadline))
        if not 0 < size <= LONGEST_FRAME:
            self.drop()
            raise ConnectionLostError("a message of %d bytes" % size)
        frame = self._read(size, deadline)
        self._heard_at = time.monotonic()
        return frame

    def _read(self, size: int, deadline: float) -> bytes:
        if self._socket is None:
            raise ConnectionLostError("there is no connection")
        parts: List[bytes] = []
        try:
            while size > 0:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                data = self._socket.recv(min(size, 65536))
                if not data:
                    raise _ClosedError("it has closed the connection")
                parts.append(data)
                size -= len(data)
        except (OSError, _ClosedError) as exc:
            self.drop()
            closed = isinstance(exc, (ConnectionResetError, _ClosedError))
            raise (_ClosedError if closed else ConnectionLostError)(_reason(exc)) from exc
        return b"".join(parts)


class _ClosedError(ConnectionLostError):
    """The server has closed the connection."""


def _text(text: str) -> bytes:
    return _buffer(text.encode("utf-8"))


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _padded(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise ConnectionLostError("a message that is too short")
    return data


def _reason(exc: Exception) -> str:
    if isinstance(exc, socket.gaierror):
        return "the name is not known (%s)" % exc.strerror
    if isinstance(exc, socket.timeout):
        return "no answer in time"
    return (isinstance(exc, OSError) and exc.strerror) or str(exc)
