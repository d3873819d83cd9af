"""Serves the rendezvous of a Horovod job: a small store of keys, over HTTP without a signature.

Horovod's processes put their addresses under ``/scope/key`` and ask for those
of the others until they are there: ``PUT``, ``GET`` (404 if there is none) and
``DELETE``. Its client can neither sign requests nor speak TLS, so whoever
reaches the port can read and replace these addresses, as with ``horovodrun``
(docs/security.md). What anybody can take of the starter is fixed: one thread,
some connections and bytes; a new caller replaces the oldest.

The port is a new one in each attempt. A process of an earlier run that still
lives does not know it, and so cannot put old addresses among the new ones.
"""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time

from ytf.log import LimitedLog
from ytf.starter import threads
from ytf.wire.bind import listen
from ytf.wire.http_reader import (
    END_OF_HEAD,
    HEAD_LIMIT,
    MalformedHttpError,
    RequestHead,
    parse_request,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Dict, Optional, Tuple

    from ytf.starter.desired_state import InboxMessage
    from ytf.wire.bind import PortRange

MAX_CALLERS = 256
"""Connections at a time. Each is for one request, which takes milliseconds."""
MAX_VALUE = 1024 * 1024
"""The most bytes of a value. gloo's has about 140 for each process of the job."""
MAX_STORED = 64 * 1024 * 1024
"""The most bytes of all keys and values: enough for 600 processes."""
ENTRY_SIZE = 256
"""What the store counts for each value beside its bytes and its key's: the objects' own size."""
MAX_BUFFERED = 16 * 1024 * 1024
"""The most bytes of requests that have not come whole, and of answers that were not read."""
MAX_NAME = 256
"""The most characters of a scope and of a key."""
REQUEST_TIMEOUT_S = 10.0
BACKLOG = 1024
PAUSE_S = 0.1
"""How long nothing is accepted after the system has refused to."""


class HorovodStore:
    """Values by scope and key, of limited size in all."""

    def __init__(self, limit: int = MAX_STORED) -> None:
        self._limit = limit
        self._used = 0
        self._values: Dict[str, bytes] = {}

    def answer(self, method: str, path: str, body: bytes) -> Tuple[int, bytes]:
        """Return the status and the body of the answer to a request."""
        _, *names = path.split("/")
        if len(names) != 2 or not all(0 < len(name) <= MAX_NAME for name in names):
            return 400, b""
        if method == "GET":
            found = self._values.get(path)
            return (404, b"") if found is None else (200, found)
        if method == "PUT":
            return (200 if self._put(path, body) else 507), b""
        if method == "DELETE":
            self._delete(path)
            return 200, b""
        return 405, b""

    def _put(self, path: str, value: bytes) -> bool:
        before = self._values.get(path)
        more = _size(path, value) - (0 if before is None else _size(path, before))
        if self._used + more > self._limit:
            return False
        self._used += more
        self._values[path] = value
        return True

    def _delete(self, path: str) -> None:
        value = self._values.pop(path, None)
        if value is not None:
            self._used -= _size(path, value)


def _size(path: str, value: bytes) -> int:
    return ENTRY_SIZE + len(path) + len(value)


class _Caller:
    """A connection: what it has sent of its request, or what it is still to be sent.

    ``received`` is what has come of the head, then of the body.
    """

    __slots__ = ("answer", "counted", "deadline", "head", "received", "sock")

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.deadline = deadline
        self.received = bytearray()
        self.head: Optional[RequestHead] = None
        self.answer = b""
        self.counted = 0


class HorovodServer:
    """Serves a new, empty store on a listening socket, in the thread that calls :meth:`run`."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._store = HorovodStore()
        # The oldest first.
        self._callers: Dict[socket.socket, _Caller] = {}
        self._buffered = 0
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._ended = threading.Event()
        self._dropped = LimitedLog()
        self._bugs = LimitedLog()

    def close(self) -> None:
        """End :meth:`run` and wait until its port is closed."""
        self._waker.close()
        self._ended.wait(REQUEST_TIMEOUT_S)

    def run(self) -> None:
        """Serve until :meth:`close`."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        try:
            while self._serve():
                now = time.monotonic()
                for caller in [c for c in self._callers.values() if c.deadline <= now]:
                    self._drop(caller, "it sent no request in time")
        finally:
            for caller in list(self._callers.values()):
                self._forget(caller)
            self._selector.close()
            self._listener.close()
            self._woken.close()
            self._ended.set()

    def _serve(self) -> bool:
        """Do what can be done now; False if the server was closed."""
        oldest = next(iter(self._callers.values()), None)
        left_s = None if oldest is None else max(oldest.deadline - time.monotonic(), 0.0)
        for key, _ in self._selector.select(left_s):
            if key.fileobj is self._woken:
                return False
            caller = key.data
            if caller is None:
                self._accept()
            elif caller.sock in self._callers:  # not replaced in this same round
                self._guard(caller)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as exc:
            if exc.errno in (errno.ECONNABORTED, errno.EINTR):
                return
            self._dropped.write("Horovod's rendezvous: no connection was accepted: %s" % exc)
            time.sleep(PAUSE_S)
            return
        sock.setblocking(False)
        if len(self._callers) >= MAX_CALLERS:
            self._drop(next(iter(self._callers.values())), "others wanted to connect")
        caller = _Caller(sock, time.monotonic() + REQUEST_TIMEOUT_S)
        self._callers[sock] = caller
        self._selector.register(sock, selectors.EVENT_READ, caller)

    def _guard(self, caller: _Caller) -> None:
        """Go on with a caller; whatever goes wrong ends its connection, and nothing else."""
        try:
            self._advance(caller)
        except (BlockingIOError, InterruptedError):
            pass  # it goes on when it can
        except (OSError, MalformedHttpError) as exc:
            self._drop(caller, str(exc))
        except Exception as exc:
            self._bugs.write(threads.bug_text(exc, "horovod"))
            self._drop(caller, "of a bug")
        self._count(caller)
        while self._buffered > MAX_BUFFERED:
            self._drop(next(iter(self._callers.values())), "others sent or fetch more")

    def _count(self, caller: _Caller) -> None:
        buffered = len(caller.received) + len(caller.answer)
        self._buffered += buffered - caller.counted
        caller.counted = buffered

    def _advance(self, caller: _Caller) -> None:
        if not caller.answer:
            self._read(caller)
        if caller.answer:
            caller.answer = caller.answer[caller.sock.send(caller.answer) :]
            if not caller.answer:
                self._forget(caller)

    def _read(self, caller: _Caller) -> None:
        data = caller.sock.recv(65536)
        if not data:
            self._forget(caller)
            return
        caller.received += data
        if caller.head is None:
            end = caller.received.find(END_OF_HEAD)
            if end < 0 and len(caller.received) <= HEAD_LIMIT:
                return
            if end < 0 or end > HEAD_LIMIT:
                raise MalformedHttpError("headers of more than %d bytes" % HEAD_LIMIT)
            caller.head = parse_request(bytes(caller.received[:end]), RequestHead)
            if caller.head.length > MAX_VALUE:
                raise MalformedHttpError("a value of more than %d bytes" % MAX_VALUE)
            del caller.received[: end + len(END_OF_HEAD)]
        if len(caller.received) >= caller.head.length:
            self._answer(caller, caller.head, bytes(caller.received[: caller.head.length]))

    def _answer(self, caller: _Caller, head: RequestHead, body: bytes) -> None:
        status, content = self._store.answer(head.method, head.target, body)
        caller.received.clear()
        start = "HTTP/1.1 %d -\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        caller.answer = (start % (status, len(content))).encode() + content
        self._selector.modify(caller.sock, selectors.EVENT_WRITE, caller)

    def _drop(self, caller: _Caller, why: str) -> None:
        self._dropped.write("Horovod's rendezvous: a caller was dropped: %s" % why)
        self._forget(caller)

    def _forget(self, caller: _Caller) -> None:
        if self._callers.pop(caller.sock, None) is not None:
            caller.received.clear()
            caller.answer = b""
            self._count(caller)
            self._selector.unregister(caller.sock)
            caller.sock.close()


class HorovodPort:
    """The port of the task with rank 0, on which this starter serves the rendezvous.

    In place of ``ytf.starter.port.TaskPort``: the program itself does not bind it.
    ``host`` and ``peer`` are as in :func:`ytf.wire.bind.listen`.
    """

    is_held = False

    def __init__(
        self,
        host: str,
        peer: Tuple[str, int],
        ports: Optional[PortRange],
        inbox: SimpleQueue[InboxMessage],
    ) -> None:
        self._host = host
        self._peer = peer
        self._ports = ports
        self._inbox = inbox
        self._server: Optional[HorovodServer] = None

    def take(self) -> int:
        """Begin to serve an empty store on a port that was not used before. Raises ``OSError``."""
        self.close()
        listener = listen(self._host, self._peer, self._ports, BACKLOG, setting="task_ports")
        self._server = HorovodServer(listener)
        number: int = listener.getsockname()[1]
        threads.start("horovod", self._server.run, self._inbox)
        return number

    def is_lost(self) -> bool:
        """Return False: the port is ours."""
        return False

    def before_program(self) -> None:
        """Do nothing: the server goes on."""

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.close()
            self._server = None
