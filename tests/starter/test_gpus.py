"""A task sees its own GPUs: as many as it was given, and none that another task has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ytf.starter import gpus
from ytf.starter.gpus import GpuError, TakenGpus, list_gpus, take_gpus
from ytf.testing.waiting import eventually


class Driver:
    """A machine with NVIDIA's GPUs, as its ``nvidia-smi`` shows them."""

    def __init__(self, directory: Path, count: int) -> None:
        self.path = str(directory)
        self._script = directory / "nvidia-smi"
        self.rows = [f"{index}, GPU-{index}abc" for index in range(count)]
        self.show()

    def show(self, busy: str = "", code: int = 0) -> None:
        rows = "\n".join(self.rows)
        self._script.write_text(
            f"#!/bin/sh\ncase $1 in --query-gpu=index,uuid) cat <<'EOF'\n{rows}\nEOF\n;;\n"
            f"--query-compute-apps=gpu_uuid) echo '{busy}' ;;\nesac\nexit {code}\n"
        )
        self._script.chmod(0o755)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    directory = tmp_path / "bin"
    directory.mkdir()
    return Driver(directory, 4)


@pytest.fixture
def locks(tmp_path: Path) -> str:
    return str(tmp_path / "user's" / "locks")


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_MORE_PATHS", ())
    monkeypatch.setattr(gpus, "_KFD", "/nonexistent")


def indices(taken: TakenGpus) -> list[int]:
    return [gpu.index for gpu in taken.gpus]


def test_two_tasks_never_share_a_gpu(driver: Driver, locks: str) -> None:
    first = take_gpus(1, locks, path=driver.path, visible=None)
    second = take_gpus(2, locks, path=driver.path, visible=None)
    assert (indices(first), indices(second)) == ([0], [1, 2])
    with pytest.raises(GpuError, match="other tasks of this user have all but 1 of the node's 4"):
        take_gpus(2, locks, path=driver.path, visible=None)
    # What it could have had is free again.
    assert indices(take_gpus(1, locks, path=driver.path, visible=None)) == [3]


def test_a_killed_process_frees_its_gpus(driver: Driver, locks: str) -> None:
    code = (
        "import sys; from ytf.starter.gpus import take_gpus; "
        "taken = take_gpus(4, sys.argv[1], path=sys.argv[2], visible=None); "
        "print('has them', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, locks, driver.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"has them\n"
        with pytest.raises(GpuError, match="all but 0"):
            take_gpus(1, locks, path=driver.path, visible=None)
        other.kill()
    assert indices(take_gpus(4, locks, path=driver.path, visible=None)) == [0, 1, 2, 3]


STARTER = """
import sys, time
from queue import SimpleQueue
from ytf.starter.gpus import take_gpus
from ytf.starter.native_runner import NativeRunner
from ytf.starter.program_env import container_environment
taken = take_gpus(4, sys.argv[1], path=sys.argv[2], visible=None)
env = container_environment()
program = NativeRunner().start("sleep 1000", env, None, SimpleQueue(), (), taken)
while program.pid is None: time.sleep(0.01)
print(program._reaper, flush=True)
sys.stdin.read()
"""


def test_gpus_are_not_free_while_a_killed_starters_program_may_live(
    driver: Driver, locks: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, locks, driver.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        reaper = int(starter.stdout.readline())
        os.kill(reaper, signal.SIGSTOP)
        starter.kill()
        starter.wait(60)
        try:
            with pytest.raises(GpuError, match="all but 0"):
                take_gpus(1, locks, path=driver.path, visible=None)
        finally:
            os.kill(reaper, signal.SIGCONT)

    def is_free() -> bool:
        try:
            return bool(take_gpus(4, locks, path=driver.path, visible=None).gpus)
        except GpuError:
            return False

    eventually(is_free, 60, "the reaper's end")


def test_a_program_sees_its_gpus_by_the_numbers_of_the_bus(driver: Driver, locks: str) -> None:
    taken = take_gpus(2, locks, path=driver.path, visible=None)
    assert taken.variables() == {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_a_program_that_reaches_no_others_counts_from_0(driver: Driver, locks: str) -> None:
    taken = take_gpus(2, locks, path=driver.path, visible="2,3")
    assert taken.nvml_names() == ["GPU-2abc", "GPU-3abc"]
    assert taken.variables()["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert taken.variables(alone=True)["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_gpus_that_nobody_uses_are_first(driver: Driver, locks: str) -> None:
    driver.show(busy="GPU-0abc")
    assert indices(take_gpus(2, locks, path=driver.path, visible=None)) == [1, 2]


def test_what_is_hidden_already_stays_hidden(driver: Driver, locks: str) -> None:
    assert [gpu.index for gpu in list_gpus(driver.path, "3,GPU-1")] == [1, 3]
    assert list_gpus(driver.path, "") == []
    with pytest.raises(GpuError, match="is to have 2, and the node has one GPU to give"):
        take_gpus(2, locks, path=driver.path, visible="3")


def test_no_gpus_at_all(tmp_path: Path, locks: str) -> None:
    assert list_gpus(str(tmp_path), None) == []
    with pytest.raises(GpuError, match="the node has no GPU to give"):
        take_gpus(1, locks, path=str(tmp_path), visible=None)


def test_a_driver_that_fails_is_quoted(driver: Driver, locks: str) -> None:
    driver.rows = ["NVIDIA-SMI has failed because it couldn't communicate with the driver."]
    driver.show(code=9)
    with pytest.raises(GpuError, match=r"cannot be listed: .*nvidia-smi: NVIDIA-SMI has failed"):
        take_gpus(1, locks, path=driver.path, visible=None)


def test_locks_that_cannot_be_made_are_told(driver: Driver) -> None:
    with pytest.raises(GpuError, match="GPUs cannot be locked in /proc/locks"):
        take_gpus(1, "/proc/locks", path=driver.path, visible=None)


def test_amds_gpus_are_counted_without_the_processors(
    tmp_path: Path, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = tmp_path / "nodes"
    nodes = [(0, "simd_count 0"), (2, "simd_count 440\nunique_id 7"), (10, "simd_count 440")]
    nodes[1] = (2, nodes[1][1] + "\ndrm_render_minor 128")
    for number, text in nodes:
        (topology / str(number)).mkdir(parents=True)
        (topology / str(number) / "properties").write_text(f"cpu_cores_count 0\n{text}\n")
    monkeypatch.setattr(gpus, "_KFD", str(topology))
    taken = take_gpus(2, locks, path=str(tmp_path), visible=None)
    assert [gpu.name for gpu in taken.gpus] == ["AMD-7", "AMD-10"]
    assert [gpu.device for gpu in taken.gpus] == ["/dev/dri/renderD128", ""]
    assert taken.nvml_names() == []
    assert taken.variables() == {"CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1"}
