"""Who can reach what a local job listens on."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.harness import BIN, FOREVER, HERE, Job, Ytf, listening_ports
from tests.e2e.network import OtherMachine, other_machine

_SERVERS = """
import os, socket, threading
IPPROTO_MPTCP = 262
def server(family, address, protocol=0):
    sock = socket.socket(family, socket.SOCK_STREAM, protocol)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind((address, 0))
    sock.listen()
    def serve():
        while True:
            accepted, _ = sock.accept()
            accepted.sendall(b"hello")
            accepted.close()
    threading.Thread(target=serve).start()
    return sock.getsockname()[1]
try:
    multipath = server(socket.AF_INET, "0.0.0.0", IPPROTO_MPTCP)
except OSError:
    multipath = 0
ports = server(socket.AF_INET, "0.0.0.0"), server(socket.AF_INET6, "::"), multipath
gate = os.environ["GATE"]
open(gate + "/ports.new", "w").write("%d %d %d" % ports)
os.rename(gate + "/ports.new", gate + "/ports")
"""
PROGRAM = f"{shlex.quote(sys.executable)} -c {shlex.quote(_SERVERS)}"


@pytest.fixture(scope="module")
def outsider() -> Iterator[OtherMachine]:
    with other_machine() as machine:
        yield machine


def reached(address: str, port: int) -> bytes:
    with socket.create_connection((address, port), 10) as sock:
        return sock.recv(100)


def test_only_this_machine_reaches_the_servers_of_local_programs(
    ytf: Ytf, outsider: OtherMachine
) -> None:
    job = ytf.submit("worker:1", PROGRAM)
    ipv4, ipv6, multipath = map(int, ytf.told("ports").split())
    for address, port in (("127.0.0.1", ipv4), (outsider.ipv4, ipv4), (outsider.ipv6, ipv6)):
        assert reached(address, port) == b"hello"
    assert outsider.connect(outsider.ipv4, ipv4).startswith("no connection")
    assert outsider.connect(outsider.ipv6, ipv6).startswith("no connection")
    if multipath:
        assert reached("127.0.0.1", multipath) == b"hello"
        assert outsider.connect(outsider.ipv4, multipath).startswith("no connection")
    assert "warning" not in ytf.run("ytf", "status", job.id).stdout
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")


def test_who_asks_for_it_gets_open_ports(ytf: Ytf, outsider: OtherMachine) -> None:
    job = ytf.submit("worker:1", PROGRAM, "--expose_ports")
    ipv4, ipv6, _ = map(int, ytf.told("ports").split())
    assert outsider.connect(outsider.ipv4, ipv4) == "connected hello"
    assert outsider.connect(outsider.ipv6, ipv6) == "connected hello"
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")


def test_programs_at_the_terminal_are_confined_as_well(ytf: Ytf, outsider: OtherMachine) -> None:
    job = ytf.submit("worker:1", HERE + FOREVER)
    job.wait_running("worker:0")
    attached = ytf.start("ytf", "attach", job.id, PROGRAM)
    ipv4, ipv6, _ = map(int, ytf.told("ports").split())
    assert reached(outsider.ipv4, ipv4) == b"hello"
    assert outsider.connect(outsider.ipv4, ipv4).startswith("no connection")
    assert outsider.connect(outsider.ipv6, ipv6).startswith("no connection")
    ytf.run("ytf", "kill", job.id)
    _, errors = attached.communicate(timeout=60)
    assert "warning" not in errors
    job.end("KILLED")


def test_without_privileges_programs_are_confined_as_well(ytf: Ytf, outsider: OtherMachine) -> None:
    setpriv = ("/usr/bin/setpriv", "--bounding-set", "-sys_admin,-sys_ptrace", "--")
    submit = (str(BIN / "ytf-submit"), "--framework", "none", "-r", "worker:1", PROGRAM)
    job = Job(ytf, ytf.run(*setpriv, *submit).stdout.strip())
    ipv4, *_ = map(int, ytf.told("ports").split())
    assert reached("127.0.0.1", ipv4) == b"hello"
    assert outsider.connect(outsider.ipv4, ipv4).startswith("no connection")
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")


_SANDBOX = """
import ctypes, os, struct, sys
# A seccomp filter: pidfd_getfd (438) fails with EPERM, as in a container of docker.
steps = ((0x20, 0, 0, 0), (0x15, 0, 1, 438), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000))
code = b"".join(struct.pack("=HBBI", *step) for step in steps)
memory = ctypes.create_string_buffer(code, len(code))
program = struct.pack("@HP", len(steps), ctypes.addressof(memory))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_where_the_kernel_does_not_let_us_the_job_says_so_once(
    ytf: Ytf, outsider: OtherMachine
) -> None:
    submit = ("--framework", "none", "-r", "worker:2", "--wait", HERE + PROGRAM)
    waiting = ytf.start(sys.executable, "-c", _SANDBOX, str(BIN / "ytf-submit"), *submit)
    assert waiting.stdout is not None
    job = Job(ytf, waiting.stdout.readline().strip())
    job.wait_running("worker:0", "worker:1")
    ipv4, *_ = map(int, ytf.told("ports").split())
    assert outsider.connect(outsider.ipv4, ipv4) == "connected hello"
    warning = "note: the network ports of this job's programs are reachable from other machines"
    shown = ytf.run("ytf", "status", job.id).stdout
    assert warning in shown
    assert "Operation not permitted (pidfd_getfd)" in shown
    assert [e.event for e in job.events()].count("note") == 1
    ytf.run("ytf", "kill", job.id)
    _, errors = waiting.communicate(timeout=60)
    assert errors.count(warning) == 1


def test_ports_come_from_the_ranges_that_were_given(ytf: Ytf, free_range: tuple[int, int]) -> None:
    first, last = free_range
    control, tasks = f"{first}-{first + 1}", f"{first + 2}-{last}"
    job = ytf.submit("worker:1", HERE + FOREVER, "--control_ports", control, "--task_ports", tasks)
    job.wait_running("worker:0")
    status = job.status()
    port = status.tasks[0].port
    assert port in (first + 2, last)
    url = status.tracking_url or ""
    ours = {first, first + 1}
    assert int(url.split(":")[2].split("/")[0]) in ours
    assert ours <= listening_ports()
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")


@pytest.mark.parametrize("option", ["--task_ports", "--control_ports"])
def test_a_full_range_is_named_with_its_node(
    ytf: Ytf, free_range: tuple[int, int], option: str
) -> None:
    first, last = free_range
    with contextlib.ExitStack() as stack:
        for port in range(first + 1, last + 1):
            stack.enter_context(socket.create_server(("0.0.0.0", port)))
        if option == "--task_ports":
            stack.enter_context(socket.create_server(("0.0.0.0", first)))
        # The master takes the one free control port, and nothing is left for the starter.
        job = ytf.submit("worker:1", HERE + FOREVER, option, f"{first}-{last}")
        status = job.end("FAILED", timeout_s=60)
    name = option.removeprefix("--")
    assert f"all ports of {name} ({first}-{last}) are taken on" in status.diagnostics
    assert socket.gethostname() in status.diagnostics


def test_a_master_without_a_port_refuses_the_job(ytf: Ytf, free_range: tuple[int, int]) -> None:
    first, _ = free_range
    ports = f"{first}-{first + 1}"
    with (
        socket.create_server(("0.0.0.0", first)),
        socket.create_server(("0.0.0.0", first + 1)),
    ):
        done = ytf.run("ytf-submit", "-r", "worker:1", "--control_ports", ports, "true", code=1)
    assert f"all ports of control_ports ({ports}) are taken on" in done.stderr
