"""What is read of real processes: times, memory, threads, disk, sockets, and of cgroups."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ytf.starter import process_usage
from ytf.starter.network_usage import NetworkUsage
from ytf.starter.process_usage import (
    ProcessUsage,
    cgroup_memory,
    read_usage,
    separate_cgroup_memory,
)
from ytf.testing.waiting import eventually

MB = 1024 * 1024
WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


@contextmanager
def child(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A parent, as the reaper is, and below it a process that runs ``code`` until it is told."""
    parent = (
        "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', *sys.argv[1:]]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent, code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            yield started
        finally:
            os.killpg(started.pid, signal.SIGKILL)


def is_ready(started: subprocess.Popen[str]) -> None:
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"


@pytest.mark.parametrize("has_children_files", [True, False])
def test_the_processor_time_of_a_tree(
    monkeypatch: pytest.MonkeyPatch, has_children_files: bool
) -> None:
    if not has_children_files:
        monkeypatch.setattr(os.path, "exists", lambda _: False)
    burn = "import os\nif os.fork() == 0:\n    while True: pass\nos.wait()"
    with child(burn) as parent:
        eventually(lambda: read_usage(parent.pid).cpu_s > 0.5, 60, "the grandchild uses 0.5 s")
        eventually(lambda: read_usage(parent.pid).processes == 2, 60, "both are found")


def test_the_time_of_children_that_have_ended_counts() -> None:
    burn = (
        "import os, time\nif os.fork() == 0:\n    while time.process_time() < 0.5: pass\n"
        "    os._exit(0)\nos.wait()\n" + WAIT
    )
    with child(burn) as parent:
        is_ready(parent)
        used = read_usage(parent.pid)
        assert used.processes == 1
        assert used.cpu_s >= 0.45


def test_memory_now_and_at_most_and_threads() -> None:
    code = (
        "import threading, time\nbig = bytearray(200 * 1024 * 1024)\ndel big\n"
        "kept = bytearray(50 * 1024 * 1024)\n"
        "for _ in range(6): threading.Thread(target=time.sleep, args=(1000,)).start()\n" + WAIT
    )
    with child(code) as parent:
        is_ready(parent)
        used = read_usage(parent.pid)
        assert used.threads == 7
        assert 50 * MB < used.memory_bytes < 150 * MB
        assert used.largest_bytes > 200 * MB
        assert used.first is not None


def test_what_is_written_to_a_disk_counts_also_after_the_writer_ended(tmp_path: Path) -> None:
    code = (
        "import os, sys\nif os.fork() == 0:\n"
        "    with open(sys.argv[1], 'wb') as f:\n"
        "        f.write(bytes(8 * 1024 * 1024)); f.flush(); os.fsync(f.fileno())\n"
        "    os._exit(0)\nos.wait()\n" + WAIT
    )
    with child(code, str(tmp_path / "file")) as parent:
        is_ready(parent)
        assert read_usage(parent.pid).disk_written_bytes >= 8 * MB


def test_the_bytes_of_tcp_connections_are_counted() -> None:
    code = (
        "import socket, sys\nlink = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "link.sendall(bytes(300000))\nleft = 200000\nwhile left: left -= len(link.recv(left))\n"
        + WAIT
    )
    network = NetworkUsage()
    with socket.create_server(("127.0.0.1", 0)) as server:
        with child(code, str(server.getsockname()[1])) as parent:
            peer, _ = server.accept()
            with peer:
                left = 300000
                while left:
                    left -= len(peer.recv(left))
                peer.sendall(bytes(200000))
                is_ready(parent)

                def counted() -> bool:
                    network.update(read_usage(parent.pid))
                    assert network.is_known
                    return network.sent_bytes >= 300000 and network.received_bytes >= 200000

                eventually(counted, 60, "both directions are counted")
                assert network.sent_bytes < 310000
                assert network.received_bytes < 210000
                before = network.sent_bytes
                network.update(read_usage(parent.pid))
                assert network.sent_bytes == before, "the same bytes count once"
        network.update(ProcessUsage())
        assert network.sent_bytes == before


def test_connections_add_up_and_a_number_may_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr("ytf.starter.network_usage._connections", lambda wanted: now.items())
    network, usage = NetworkUsage(), ProcessUsage()
    usage.sockets = {1, 2}
    now.update({1: (10, 1), 2: (5, 5)})
    network.update(usage)
    now.update({1: (11, 1), 2: (2, 1)})
    network.update(usage)
    assert (network.received_bytes, network.sent_bytes) == (18, 7)


def test_a_node_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(wanted: set[int]) -> Iterator[tuple[int, tuple[int, int]]]:
        raise PermissionError("netlink is forbidden")

    monkeypatch.setattr("ytf.starter.network_usage._connections", refuse)
    network, usage = NetworkUsage(), ProcessUsage()
    assert network.is_known
    usage.sockets = {1}
    network.update(usage)
    assert not network.is_known


def test_a_busy_node_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(wanted: set[int]) -> Iterator[tuple[int, tuple[int, int]]]:
        raise TimeoutError

    network, usage = NetworkUsage(), ProcessUsage()
    usage.sockets = {1}
    monkeypatch.setattr("ytf.starter.network_usage._connections", late)
    network.update(usage)
    assert network.is_known
    monkeypatch.setattr("ytf.starter.network_usage._connections", lambda wanted: [(1, (4, 5))])
    network.update(usage)
    assert (network.received_bytes, network.sent_bytes) == (4, 5)


def test_a_network_namespace_of_its_own_has_interfaces_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ytf.starter.network_usage._has_own_namespace", lambda pid: True)
    text = Path("/proc/net/dev").read_text().splitlines()[2:]
    names = {line.partition(":")[0].strip() for line in text}
    network, usage = NetworkUsage(), ProcessUsage()
    usage.first = os.getpid()
    network.update(usage)
    if names == {"lo"}:
        assert network.received_bytes == 0
    else:
        assert network.received_bytes > 0


def test_a_process_that_is_gone_uses_nothing() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
        used = read_usage(gone.pid)
    assert (used.cpu_s, used.memory_bytes, used.processes, used.first) == (0, 0, 0, None)


@pytest.mark.parametrize("name", ["VmHWM: x", "VmHWM:\t9 kB", "a) S 1 (b", "\n1 2 3"])
def test_a_process_may_be_called_anything(name: str) -> None:
    code = "import sys\nwith open('/proc/self/comm', 'w') as file: file.write(sys.argv[1])\n" + WAIT
    with child(code, name) as parent:
        is_ready(parent)
        used = read_usage(parent.pid)
        assert (used.processes, used.threads) == (1, 1)
        assert used.largest_bytes >= used.memory_bytes > MB


def test_a_program_with_very_many_files_is_searched_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import socket\nmany = [socket.socket() for _ in range(50)]\n" + WAIT
    with child(code) as parent:
        is_ready(parent)
        assert len(read_usage(parent.pid).sockets) == 50
        monkeypatch.setattr(process_usage, "_MOST_SOCKETS", 20)
        assert len(read_usage(parent.pid).sockets) == 20
        monkeypatch.setattr(process_usage, "_MOST_FILES", 10)
        assert len(read_usage(parent.pid).sockets) <= 10


@pytest.mark.parametrize(
    ("cgroup", "folder", "stat", "memory"),
    [
        ("0::/yarn/c_1\n", "yarn/c_1", "anon 100\nfile 9000\nshmem 20\n", 120),
        (
            "5:cpu,cpuacct:/yarn/c_1\n4:memory:/yarn/c_1\n0::/\n",
            "memory/yarn/c_1",
            "rss 1\ntotal_rss 200\ntotal_cache 7000\n",
            200,
        ),
        ("5:cpu:/yarn/c_1\n0::/\n", "cpu/yarn/c_1", "total_rss 200\n", None),
        ("0::/yarn/c_11\n", "yarn/c_11", "anon 100\n", None),
        ("0::/yarn/c_1\n", "elsewhere", "anon 100\n", None),
    ],
)
def test_the_memory_of_a_cgroup_that_is_the_containers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cgroup: str,
    folder: str,
    stat: str,
    memory: int | None,
) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "memory.stat").write_text(stat)
    read = process_usage._read
    monkeypatch.setattr(
        process_usage,
        "_read",
        lambda path: cgroup.encode() if path.endswith("/cgroup") else read(path),
    )
    assert cgroup_memory(1, "c_1", str(tmp_path)) == memory


@pytest.mark.parametrize(
    ("cgroup", "folder", "memory"),
    [
        ("0::/yarn/docker/77\n", "yarn/docker/77", 120),
        ("0::/yarn\n", "yarn", None),
        ("4:memory:/docker/77\n0::/yarn\n", "memory/docker/77", 120),
        ("4:cpu:/docker/77\n0::/yarn\n", "yarn", None),
    ],
)
def test_the_memory_of_a_cgroup_that_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, folder: str, memory: int | None
) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "memory.stat").write_text("anon 100\nshmem 20\ntotal_rss 100\ntotal_shmem 20\n")
    read = process_usage._read
    tables = {"/proc/1/cgroup": cgroup.encode(), f"/proc/{os.getpid()}/cgroup": b"0::/yarn\n"}
    monkeypatch.setattr(process_usage, "_read", lambda path: tables.get(path) or read(path))
    assert separate_cgroup_memory(1, str(tmp_path)) == memory
