"""What a job does on the nodes: where it listens, and what is left if its processes are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf import processes
from ytf.testing.waiting import eventually

pytestmark = pytest.mark.yarn

_DAEMON = (
    "export GATE; setsid --fork sh -c 'echo $$ >$GATE/d; mv $GATE/d $GATE/daemon; sleep 1000'; "
)


def listening() -> dict[int, str]:
    """The address, in hexadecimal digits, on which each listening port is open."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                address, _, port = local.rpartition(":")
                found[int(port, 16)] = address
    return found


def test_ours_listen_on_one_address_and_ports_are_of_their_ranges(
    yarn: Yarn, gate: str, free_range: tuple[int, int]
) -> None:
    first, last = free_range
    ranges = ("--control_ports", f"{first}-{first + 1}", "--task_ports", f"{first + 2}-{last}")
    job = yarn.submit("worker:1", gate + HERE + HOLD, *ranges)
    yarn.wait_running(["worker:0"])
    task = yarn.wait(job, "RUNNING")["tasks"][0]
    assert task["port"] in (first + 2, last)
    found = listening()
    ours = [found.get(port, "") for port in (first, first + 1)]
    assert all(address.strip("0") for address in ours), f"listening at {ours}"
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    yarn.nothing_is_left(job)


def test_a_full_range_is_named(yarn: Yarn, gate: str, free_range: tuple[int, int]) -> None:
    first, _ = free_range
    # One port for two of our processes: the master takes it.
    job = yarn.submit("worker:1", gate + HERE + HOLD, "--control_ports", f"{first}-{first}")
    why = yarn.wait(job, "FAILED")["diagnostics"]
    assert f"all ports of control_ports ({first}-{first}) are taken on" in why
    yarn.nothing_is_left(job)


def test_a_daemon_dies_though_shell_starter_and_reaper_are_killed_at_once(
    yarn: Yarn, gate: str
) -> None:
    job = yarn.submit("worker:1", gate + _DAEMON + HERE + HOLD)
    program = yarn.wait_running(["worker:0"])["worker:0"]
    told = yarn.work / "gate" / "daemon"
    eventually(told.exists, 30, "the daemon runs")
    daemon = int(told.read_text())
    ticks = processes.start_ticks(daemon)
    assert ticks is not None
    reaper = _parent(program)
    starter = _parent(reaper)
    victims = [_parent(starter), starter, reaper]
    # None of them may do anything about the death of another.
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in victims:
            os.kill(pid, signum)
    eventually(lambda: not processes.alive(daemon, ticks), 100, "the daemon dies")
    yarn.wait(job, "FAILED")
    yarn.nothing_is_left(job)


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])
