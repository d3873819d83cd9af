"""The calls of listen that are told to the supervisor, and what it does with their sockets."""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from ytf.backends.local import loopback
from ytf.backends.local.loopback import ListenSupervisor, UnsupportedError, confine_thread

_SO_LOCK_FILTER = 44


def confined(program: Callable[[], None]) -> list[str]:
    """Run a function in a confined child, and supervise it; what could not be confined."""
    problems: list[str] = []
    receiving, sending = socket.socketpair()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fd = confine_thread()
            assert fd is not None
            socket.send_fds(sending, [b"x"], [fd])
            os.close(fd)
            program()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    with receiving, sending:
        _, fds, _, _ = socket.recv_fds(receiving, 1, 1)
    ListenSupervisor(fds[0]).serve(problems.append)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return problems


def is_confined(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER))


def test_tcp_servers_are_confined_and_may_listen_again() -> None:
    def program() -> None:
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            with socket.socket(family) as sock:
                sock.bind((address, 0))
                sock.listen()
                sock.listen(7)
                assert is_confined(sock)
                with socket.create_connection(sock.getsockname()[:2], 10):
                    sock.accept()[0].close()

    assert confined(program) == []


def test_other_sockets_are_left_alone(tmp_path: Path) -> None:
    def program() -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(tmp_path / "s"))
            sock.listen()
            assert not is_confined(sock)
        # What is no socket, or nothing at all, fails as it does without us.
        libc = ctypes.CDLL(None, use_errno=True)
        with open(os.devnull) as file:
            assert libc.listen(file.fileno(), 1) == -1
            assert ctypes.get_errno() == 88
        assert libc.listen(12345, 1) == -1
        assert ctypes.get_errno() == 9

    assert confined(program) == []


def test_threads_and_their_children_are_confined() -> None:
    def program() -> None:
        code = (
            "import socket, threading, sys\n"
            "found = []\n"
            "def serve():\n"
            "    with socket.create_server(('', 0)) as s: found.append(s.getsockopt(1, 44))\n"
            "t = threading.Thread(target=serve); t.start(); t.join()\n"
            "sys.exit(found != [1])\n"
        )
        assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0

    assert confined(program) == []


def test_a_job_within_a_job_is_confined_already() -> None:
    def program() -> None:
        assert confine_thread() is None

    assert confined(program) == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it calls as 32-bit programs of x86 do")
@pytest.mark.parametrize("by_socketcall", [False, True])
def test_32_bit_calls_are_confined(by_socketcall: bool) -> None:
    def program() -> None:
        with (
            socket.socket() as sock,
            mmap.mmap(
                -1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=7
            ) as memory,
        ):  # MAP_32BIT: the arguments must lie where 32 bits reach
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            arguments = sock.fileno().to_bytes(4, "little") + (5).to_bytes(4, "little")
            memory[512:520] = arguments
            first, second = (4, address + 512) if by_socketcall else (sock.fileno(), 5)
            number = 102 if by_socketcall else 363
            # push rbx; mov eax, number; mov ebx, first; mov ecx, second; int 0x80; pop rbx; ret
            code = (
                b"\x53\xb8" + number.to_bytes(4, "little") + b"\xbb" + first.to_bytes(4, "little")
            )
            code += b"\xb9" + second.to_bytes(4, "little") + b"\xcd\x80\x5b\xc3"
            memory[: len(code)] = code
            result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
            if result == -38:
                return  # ENOSYS: this kernel runs no 32-bit programs
            assert result == 0, result
            assert is_confined(sock)
            os._exit(0)  # a pointer into the memory is alive, so it cannot be closed

    assert confined(program) == []


def test_what_cannot_be_confined_listens_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            assert not is_confined(sock)

    def refuse(sock: socket.socket) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(loopback, "_accept_local_only", refuse)
    [problem] = confined(program)
    assert "Operation not permitted" in problem


def test_an_unknown_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    uname = os.uname_result(("Linux", "n", "6.1", "v", "riscv64"))
    monkeypatch.setattr(os, "uname", lambda: uname)
    with pytest.raises(UnsupportedError, match="riscv64"):
        confine_thread()


def test_a_caller_that_dies_meanwhile_is_no_problem() -> None:
    receiving, sending = socket.socketpair()
    child = os.fork()
    if child == 0:
        fd = confine_thread()
        assert fd is not None
        socket.send_fds(sending, [b"x"], [fd])
        os.close(fd)
        socket.create_server(("127.0.0.1", 0))
        os._exit(1)
    with receiving, sending:
        _, fds, _, _ = socket.recv_fds(receiving, 1, 1)
    supervisor = ListenSupervisor(fds[0])
    assert select.select([supervisor.fd], [], [], 30)[0]
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert supervisor.answer() == ""
    os.close(supervisor.fd)
