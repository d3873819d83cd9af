"""Reading /proc, with real processes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ytf import processes


def test_a_zombie_is_not_alive() -> None:
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


@pytest.mark.parametrize("hidepid", [1, 2])
def test_what_linux_hides_of_other_users_is_not_seen_and_nothing_raises(hidepid: int) -> None:
    code = """if True:
        import os, sys
        from ytf import processes

        pid = int(sys.argv[1])
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        print(
            processes.start_ticks(pid), processes.alive(pid, 1), processes.descendants(pid),
            processes.used_memory(pid), repr(processes.command_line(pid)),
            processes.name(pid), processes.is_hidden(pid), processes.is_hidden(os.getpid()),
        )
    """
    mount = f"mount -t proc -o hidepid={hidepid} proc /proc && exec"
    done = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c", f'{mount} "$@"', "sh"),
            *(sys.executable, "-c", code, str(os.getpid())),
        ],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout == "None False [] 0 '' b'' True False\n"


def test_descendants_of_every_thread() -> None:
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


def test_memory() -> None:
    own = os.getpid()
    assert processes.used_memory(own) > 1 << 20
    assert 0 < processes.proportional_memory(own) <= processes.used_memory(own) + (1 << 20)
    assert processes.used_memory(2**22 + 1) == 0
    assert processes.proportional_memory(2**22 + 1) == 0
    assert processes.command_line(2**22 + 1) == ""


@pytest.mark.parametrize("counted", [processes.used_memory, processes.proportional_memory])
def test_mapped_files_are_not_used_memory_but_shared_memory_is(
    counted: Callable[[int], int], tmp_path: Path
) -> None:
    size = 32 << 20
    file = tmp_path / "data"
    file.write_bytes(b"x" * size)
    before = counted(os.getpid())
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[at] for at in range(0, size, 4096)) > 0
        assert counted(os.getpid()) < before + size // 2
    with mmap.mmap(-1, size) as shared:
        shared.write(b"x" * size)
        assert counted(os.getpid()) > before + size // 2


def test_found_by_their_environment_but_never_us() -> None:
    name, value = "YTF_TEST_MARK", "wörd"
    env = {**os.environ, name: value}
    finder = f"from ytf import processes;print(processes.with_variable({name!r}, {value!r}))"
    with subprocess.Popen(["sleep", "60"], env=env) as other:
        told = subprocess.run(
            [sys.executable, "-c", finder], env=env, capture_output=True, text=True, check=True
        )
        other.kill()
    assert told.stdout.strip() == f"[{other.pid}]"
