"""Keeps the TCP servers of local programs away from the network: only this machine reaches them.

A TensorFlow server listens on all addresses of the machine, whatever it is told,
and whoever connects to it may read and write files as its owner. ADR 16 has the
reasons for this mechanism::

    program                 kernel                          supervisor (this module)
    listen(fd, …) ────────▶ seccomp filter: notify ───────▶ answer(): takes the socket by
                                                            pidfd_getfd, attaches a filter to
       ◀── the call continues ◀──────────────────────────── it that drops every packet that did
                                                            not come in by the interface lo

Linux sends what one process of a machine sends to another by lo, whatever
address they use. Outgoing connections are not affected, nor is UDP.

Standard library only: the node of each local job imports this.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# linux/seccomp.h, linux/audit.h, linux/filter.h, asm/unistd.h
_SET_MODE_FILTER = 1
_FLAGS = 1 << 3 | 1 << 2
"""NEW_LISTENER; SPEC_ALLOW: the programs shall not run slower because of the filter."""
_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000
_CONTINUE = 1
_NOTIF = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_NOTIF_RECV = 0xC0002100 | _NOTIF.size << 16
_NOTIF_SEND = 0xC0002101 | _RESPONSE.size << 16
_NOTIF_ID_VALID = 0x40082102
_PIDFD_GETFD = 438
_PR_SET_NO_NEW_PRIVS = 38

_SO_ATTACH_FILTER = 26
_SO_LOCK_FILTER = 44
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NR, _ARCH, _ARG0 = 0, 4, 16
"""Offsets in ``struct seccomp_data``."""
_INTERFACE = 0xFFFFF000 + 8
"""SKF_AD_OFF + SKF_AD_IFINDEX: the number of the interface by which a packet came."""
_LO = b"lo\0"
_LO_NUMBER = 1
"""The number of lo in every network namespace."""

_SOCKETCALL = 102
_SYS_LISTEN = 4
_I386 = 0x40000003
_X32 = 0x40000000
_SECCOMP_NUMBER = {"x86_64": 317, "aarch64": 277}
_LISTEN_NUMBERS: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {0xC000003E: (50, _X32 + 50), _I386: (363,)},
    "aarch64": {0xC00000B7: (201,), 0x40000028: (284,)},
}
"""By machine and architecture of the call: a 64-bit kernel runs 32-bit programs, too."""

_libc = ctypes.CDLL(None, use_errno=True)


class UnsupportedError(Exception):
    """This kernel does not let us confine programs; the text says why."""


def warning_text(why: str) -> str:
    """What users are told when the servers of their programs could not be confined."""
    return (
        "the network ports of this job's programs are reachable from other machines, and whoever "
        f"reaches a TensorFlow server may read and write your files: {why}; see docs/security.md"
    )


def confine_thread() -> int | None:
    """Confine the programs of this thread; returns the descriptor for :class:`ListenSupervisor`.

    The thread, and all processes and threads that it starts from now on, cannot
    open a TCP server to the network any more; there is no way back. Their calls
    of ``listen`` wait until they are answered. Returns None if the supervisor of
    another job confines us already. Raises ``UnsupportedError``.
    """
    machine = os.uname().machine
    if machine not in _LISTEN_NUMBERS:
        raise UnsupportedError(f"ytf does not know the system calls of {machine}")
    try:
        _check_pidfd_getfd()
        return _install(_SECCOMP_NUMBER[machine], _notify_of_listen(machine))
    except OSError as exc:
        if exc.errno == errno.EBUSY and _is_confined():
            return None
        raise UnsupportedError(f"{exc.strerror} ({exc.filename})") from exc


class ListenSupervisor:
    """Answers the calls of ``listen`` of confined programs; must live as long as they do.

    Never in a thread that is confined and listens itself: it would wait for its
    own answer.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        """Readable when a call waits; hung up when no confined program is left."""

    def answer(self) -> str:
        """Confine the socket of a call that waits, and let the call continue.

        Returns why the socket could not be confined: then it listens all the
        same. Empty if it was, if there is nothing to do for such a socket (a Unix
        socket, say), or if the caller has died.
        """
        data = bytearray(_NOTIF.size)
        try:
            fcntl.ioctl(self.fd, _NOTIF_RECV, data)
        except OSError as exc:
            if exc.errno in (errno.ENOENT, errno.EINTR):
                return ""  # the caller has died, or a signal interrupted its call
            raise
        call, thread, _, number, arch, _, *args = _NOTIF.unpack(data)
        problem = ""
        try:
            self._confine(call, thread, _socket_argument(thread, number, arch, args))
        except OSError as exc:
            # EBADF: it has no such descriptor, and the call fails by itself.
            if exc.errno != errno.EBADF and self._is_waiting(call):
                problem = f"the socket of process {thread}: {exc.strerror or exc}"
        try:
            fcntl.ioctl(self.fd, _NOTIF_SEND, _RESPONSE.pack(call, 0, 0, _CONTINUE))
        except OSError as exc:
            if exc.errno != errno.ENOENT:
                raise
        return problem

    def serve(self, warn: Callable[[str], None]) -> None:
        """Answer until no confined program is left; ``warn`` is told of what could not be."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while True:
            events = poll.poll()
            if any(event & select.POLLIN for _, event in events):
                problem = self.answer()
                if problem:
                    warn(problem)
            elif events:
                os.close(self.fd)
                return

    def _confine(self, call: int, thread: int, number: int) -> None:
        pidfd = os.pidfd_open(_process_of(thread))
        try:
            if not self._is_waiting(call):
                return  # it died, and its number may be another's now
            fd = _pidfd_getfd(pidfd, number)
        finally:
            os.close(pidfd)
        try:
            sock = socket.socket(fileno=fd)
        except OSError:
            os.close(fd)  # no socket: the call fails by itself
            return
        with sock:
            if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                _accept_local_only(sock)

    def _is_waiting(self, call: int) -> bool:
        try:
            fcntl.ioctl(self.fd, _NOTIF_ID_VALID, struct.pack("=Q", call))
        except OSError:
            return False
        return True


def _accept_local_only(sock: socket.socket) -> None:
    if sock.getsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER):
        return  # it listened before
    program, keep = _program(
        [
            (_LOAD, 0, 0, _INTERFACE),
            (_JUMP_IF_EQUAL, 0, 1, _LO_NUMBER),
            (_RETURN, 0, 0, 0xFFFFFFFF),
            (_RETURN, 0, 0, 0),
        ]
    )
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        # So that the program does not remove it by mistake; what it accepts inherits both.
        sock.setsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER, 1)
    except OSError as exc:
        if exc.errno != errno.EOPNOTSUPP:
            raise
        # Multipath TCP (Go's default) has no filters. It is then reached by 127.0.0.1 and ::1
        # only, not by the machine's other addresses.
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).startswith(_LO):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LO)
    finally:
        del keep


def _is_confined() -> bool:
    """Tell whether sockets of this thread are confined when they listen."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(1)
        return bool(sock.getsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER))


def _notify_of_listen(machine: str) -> list[tuple[int, int, int, int]]:
    """The seccomp filter: every call of listen is told to the supervisor, all others pass."""
    code: list[tuple[int, int, int, int]] = []
    for arch, numbers in _LISTEN_NUMBERS[machine].items():
        calls = [(_LOAD, 0, 0, _NR)]
        for number in numbers:
            calls += [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
        if arch == _I386:
            calls += [
                (_JUMP_IF_EQUAL, 0, 3, _SOCKETCALL),
                (_LOAD, 0, 0, _ARG0),
                (_JUMP_IF_EQUAL, 0, 1, _SYS_LISTEN),
                (_RETURN, 0, 0, _NOTIFY),
            ]
        calls.append((_RETURN, 0, 0, _ALLOW))
        code += [(_LOAD, 0, 0, _ARCH), (_JUMP_IF_EQUAL, 0, len(calls), arch), *calls]
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _program(code: Sequence[tuple[int, int, int, int]]) -> tuple[bytes, object]:
    """A ``struct sock_fprog``, and the memory that it points to."""
    body = b"".join(struct.pack("=HBBI", *each) for each in code)
    memory = ctypes.create_string_buffer(body, len(body))
    return struct.pack("@HP", len(code), ctypes.addressof(memory)), memory


def _install(seccomp: int, code: Sequence[tuple[int, int, int, int]]) -> int:
    program, keep = _program(code)
    arguments = (ctypes.c_ulong(_SET_MODE_FILTER), ctypes.c_ulong(_FLAGS), program)
    try:
        return _system_call("seccomp", seccomp, *arguments)
    except PermissionError:
        # Without privileges the kernel wants that setuid programs gain nothing below us.
        _system_call("prctl", None, _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0)
        return _system_call("seccomp", seccomp, *arguments)
    finally:
        del keep


def _check_pidfd_getfd() -> None:
    # Linux has it since 5.6, and sandboxes often forbid it.
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, "pidfd_open") from exc
    try:
        os.close(_pidfd_getfd(pidfd, pidfd))
    finally:
        os.close(pidfd)


def _pidfd_getfd(pidfd: int, number: int) -> int:
    return _system_call("pidfd_getfd", _PIDFD_GETFD, pidfd, number, ctypes.c_ulong(0))


def _system_call(name: str, number: int | None, *arguments: object) -> int:
    if number is None:
        result = getattr(_libc, name)(*arguments)
    else:
        result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return int(result)


def _socket_argument(thread: int, number: int, arch: int, args: Sequence[int]) -> int:
    if arch == _I386 and number == _SOCKETCALL:
        # The arguments are in the caller's memory.
        with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
            memory.seek(args[1])
            return int.from_bytes(memory.read(4), "little")
    return args[0] & 0xFFFFFFFF


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
