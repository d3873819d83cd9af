"""Restart policy, /proc and removal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ytf import processes
from ytf.backends.local.removal import remove_tree
from ytf.backends.local.restarts import Restarts


class TestRestarts:
    def test_the_first_is_at_once_then_they_wait_longer(self) -> None:
        restarts = Restarts(max_attempts=100, window_s=1e9)
        delays = []
        for now in range(12):
            restarts.started(now)
            delays.append(restarts.died(now + 0.1))
        assert delays[:5] == [0.0, 0.5, 1.0, 2.0, 4.0]
        assert delays[-1] == 30.0

    def test_a_master_that_lived_long_is_replaced_at_once(self) -> None:
        restarts = Restarts(max_attempts=10, window_s=1e9)
        for now in (0.0, 1.0, 2.0):
            restarts.started(now)
            restarts.died(now)
        restarts.started(3.0)
        assert restarts.died(100.0) == 0.0

    def test_too_many_within_the_window_end_it(self) -> None:
        restarts = Restarts(max_attempts=2, window_s=100.0)
        restarts.started(0.0)
        assert restarts.died(10.0) is not None
        restarts.started(10.0)
        assert restarts.died(20.0) is None

    def test_old_starts_are_forgiven(self) -> None:
        restarts = Restarts(max_attempts=2, window_s=100.0)
        for now in (0.0, 200.0, 400.0, 600.0):
            restarts.started(now)
            assert restarts.died(now + 150.0) == 0.0


class TestProcesses:
    def test_a_zombie_is_not_alive(self) -> None:
        child = subprocess.Popen(["true"])
        ticks = processes.start_ticks(os.getpid())
        assert ticks is not None
        assert processes.alive(os.getpid(), ticks)
        assert not processes.alive(os.getpid(), ticks + 1)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.start_ticks(child.pid) is None
        assert child.pid in processes.children(os.getpid())
        child.wait()
        assert child.pid not in processes.children(os.getpid())

    def test_descendants_of_every_thread(self) -> None:
        script = (
            "import subprocess, sys, threading\n"
            "def run():\n"
            "    child = subprocess.Popen(['sh', '-c', 'sleep 60; true'])\n"
            "    print('up', flush=True); child.wait()\n"
            "threading.Thread(target=run).start()\n"
        )
        command = [sys.executable, "-c", script]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            parent.stdout.readline()
            found = processes.descendants(parent.pid)
            while len(found) < 2:
                found = processes.descendants(parent.pid)
            assert "sleep 60" in processes.command_line(found[0])
            processes.kill([parent.pid, *found])

    def test_memory(self) -> None:
        own = os.getpid()
        assert processes.resident(own) > 1 << 20
        assert 0 < processes.proportional(own) <= processes.resident(own) + (1 << 20)
        assert processes.resident(2**22 + 1) == 0
        assert processes.command_line(2**22 + 1) == ""

    def test_found_by_their_environment_but_never_us(self) -> None:
        name, value = "YTF_TEST_MARK", "wörd"
        env = {**os.environ, name: value}
        finder = f"from ytf import processes;print(processes.with_variable({name!r}, {value!r}))"
        with subprocess.Popen(["sleep", "60"], env=env) as other:
            told = subprocess.run(
                [sys.executable, "-c", finder], env=env, capture_output=True, text=True, check=True
            )
            other.kill()
        assert told.stdout.strip() == f"[{other.pid}]"


def test_removal_takes_read_only_directories_and_leaves_what_links_lead_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "er" / "file").touch()
    (tree / "link").symlink_to(outside)
    (tree / "dangling").symlink_to("nowhere")
    (tree / "deep").chmod(0o500)
    remove_tree(str(tree))
    assert not tree.exists()
    assert (outside / "kept").exists()
    remove_tree(str(tree))
