"""The meter: rates, totals, peaks, and that sampling keeps within its budget."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ytf.specs.usage import TaskUsage
from ytf.starter.gpu_usage import GpuSampler, NvmlError, NvmlGpus, visible_gpus
from ytf.starter.process_usage import ProcessUsage, read_usage
from ytf.starter.usage_meter import BUDGET, EVERY_S, FIRST_AFTER_S, UsageMeter, gpu_meter, pause_s
from ytf.testing.waiting import eventually

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage

MB = 1024 * 1024


def rusage(**changes: float) -> Any:
    return SimpleNamespace(
        **{"ru_utime": 0.0, "ru_stime": 0.0, "ru_maxrss": 0, "ru_inblock": 0, "ru_oublock": 0}
        | changes
    )


class Program:
    """A program of which a test says what it uses, and a clock."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.usage = ProcessUsage()
        self.usage.processes = 1
        self.now = 1000.0
        self.cost_s = cost_s
        self.cpu = 0.0
        self.samples = 0
        self.meter = UsageMeter(self._read, self.now, cpu_clock=lambda: self.cpu)

    def _read(self) -> ProcessUsage:
        self.samples += 1
        self.cpu += self.cost_s
        return self.usage

    def after(self, seconds: float, **changes: Any) -> dict[str, Any]:
        for name, value in changes.items():
            setattr(self.usage, name, value)
        self.now += seconds
        self.meter.sample_if_due(self.now)
        latest = self.meter.latest
        assert latest is not None
        return latest


def test_rates_are_over_the_time_between_two_samples() -> None:
    program = Program()
    program.meter.sample_if_due(program.now)
    assert program.meter.latest is None, "too early"
    first = program.after(FIRST_AFTER_S, cpu_s=0.5, disk_read_bytes=1000)
    assert (first["cpu_cores"], first["disk_read_bytes_per_s"]) == (0.5, 1000.0)
    second = program.after(EVERY_S, cpu_s=0.5 + 2 * EVERY_S, disk_read_bytes=1000)
    assert (second["cpu_cores"], second["peak_cpu_cores"]) == (2.0, 2.0)
    assert second["disk_read_bytes_per_s"] == 0
    assert second["cpu_s"] == 5.5
    third = program.after(EVERY_S)
    assert (third["cpu_cores"], third["peak_cpu_cores"]) == (0.0, 2.0)
    assert third["elapsed_s"] == FIRST_AFTER_S + 2 * EVERY_S


def test_a_total_never_shrinks_and_no_rate_is_negative() -> None:
    program = Program()
    program.after(FIRST_AFTER_S, cpu_s=9.0, disk_written_bytes=500)
    less = program.after(EVERY_S, cpu_s=4.0, disk_written_bytes=100)
    assert (less["cpu_s"], less["cpu_cores"]) == (9.0, 0.0)
    assert (less["disk_written_bytes"], less["disk_written_bytes_per_s"]) == (500, 0.0)
    more = program.after(EVERY_S, cpu_s=4.0 + EVERY_S)
    assert more["cpu_cores"] == 1.0


def test_the_peak_is_also_what_one_process_had_between_two_samples() -> None:
    program = Program()
    found = program.after(FIRST_AFTER_S, memory_bytes=10 * MB, largest_bytes=70 * MB, threads=4)
    assert (found["memory_bytes"], found["peak_memory_bytes"]) == (10 * MB, 70 * MB)
    found = program.after(EVERY_S, memory_bytes=90 * MB, threads=2)
    found = program.after(EVERY_S, memory_bytes=1)
    assert (found["peak_memory_bytes"], found["peak_threads"]) == (90 * MB, 4)


def test_the_end_brings_what_linux_counted() -> None:
    program = Program()
    program.after(FIRST_AFTER_S, cpu_s=0.5, memory_bytes=MB)
    end = rusage(ru_utime=2.0, ru_stime=0.25, ru_maxrss=3 * 1024 * 1024, ru_oublock=4)
    program.meter.finish(end, program.now + 2)
    found = program.meter.latest
    assert found is not None
    assert (found["cpu_s"], found["peak_memory_bytes"]) == (2.25, 3 * 1024 * MB)
    assert (found["disk_written_bytes"], found["elapsed_s"]) == (2048, FIRST_AFTER_S + 2)


def test_a_program_that_ends_before_the_first_sample_has_figures_too() -> None:
    program = Program()
    program.meter.finish(rusage(ru_utime=0.5, ru_maxrss=1024), program.now + 0.5)
    found = program.meter.latest
    assert found is not None
    assert (found["cpu_s"], found["peak_cpu_cores"]) == (0.5, 1.0)
    assert found["peak_memory_bytes"] == MB, "a bound: it may have been the starter's own"
    assert found["network_sent_bytes"] is None
    assert msgspec.convert(found, TaskUsage).cpu_s == 0.5


def test_all_figures_are_those_that_masters_take() -> None:
    found = msgspec.convert(Program().after(FIRST_AFTER_S), TaskUsage)
    told = Program().after(FIRST_AFTER_S)
    assert set(msgspec.to_builtins(found)) == {*told, "attempt", "metrics"}, (
        "the starter adds these two"
    )


def test_figures_that_cannot_be_read_end_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    program = Program()
    program.after(FIRST_AFTER_S)
    read, program.meter._read = program.meter._read, lambda: 1 // 0  # type: ignore[assignment,return-value]
    program.now += EVERY_S
    assert program.meter.sample_if_due(program.now) is None
    assert "what the program uses could not be read" in capfd.readouterr().err
    program.meter._read = read
    assert program.after(EVERY_S)["elapsed_s"] == FIRST_AFTER_S + 2 * EVERY_S


def test_a_network_that_is_not_told_any_more_has_no_rate() -> None:
    program = Program()
    program.meter._network.sent_bytes = 10**9
    assert program.after(FIRST_AFTER_S)["network_sent_bytes"] == 10**9
    program.meter._network._works = False
    found = program.after(EVERY_S)
    assert (found["network_sent_bytes"], found["network_sent_bytes_per_s"]) == (None, 0)
    msgspec.convert(found, TaskUsage)


def test_costly_samples_are_taken_less_often() -> None:
    assert pause_s(0.0) == EVERY_S
    assert pause_s(0.1) == 0.1 / BUDGET
    cheap, costly = Program(0.001), Program(0.05)
    for _ in range(3600):
        for program in (cheap, costly):
            program.now += 1
            program.meter.sample_if_due(program.now)
    assert cheap.cpu / 3600 <= BUDGET
    assert costly.cpu / 3600 <= BUDGET * 1.05
    assert cheap.samples >= 1000
    assert costly.samples > 3600 * BUDGET / 0.05 * 0.9


def test_a_sample_of_a_real_tree_is_cheap_enough_for_its_pace() -> None:
    """Some processes with threads: the usual pace must do."""
    code = (
        "import os, sys, threading, time\n"
        "for _ in range(4): os.fork()\n"
        "for _ in range(8): threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as program:
        try:
            me = os.getpid()
            eventually(lambda: read_usage(me).threads >= 16 * 9, 60, "all threads run")
            meter = UsageMeter(lambda: read_usage(me), 0.0)
            before = time.thread_time()
            for number in range(1, 6):
                meter.sample_if_due(number * 1e6)
            cost_s = (time.thread_time() - before) / 5
            assert cost_s <= 10 * BUDGET * EVERY_S, "144 threads in 16 processes"
        finally:
            os.killpg(program.pid, 9)


# GPUs


class FakeNvml:
    """Two GPUs, in place of NVIDIA's library. It counts its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_broken = False

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            return self._answer(name, arguments)

        return call

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        if self.is_broken:
            return 15
        if name == "nvmlInit_v2":
            return 0
        if name == "nvmlDeviceGetHandleByIndex_v2":
            if arguments[0].value > 1:
                return 2
            arguments[1]._obj.value = 100 + arguments[0].value
        elif name == "nvmlDeviceGetHandleByUUID":
            arguments[1]._obj.value = {b"GPU-a": 100, b"GPU-b": 101}[arguments[0]]
        elif name == "nvmlDeviceGetMemoryInfo":
            number = arguments[0].value - 100
            arguments[1]._obj.total, arguments[1]._obj.used = 16 * MB, (number + 1) * MB
        elif name == "nvmlDeviceGetUtilizationRates":
            arguments[1]._obj.gpu = 25 + arguments[0].value - 100
        else:
            return 3
        return 0


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: fake)
    return fake


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", []),
        ("0", ["0"]),
        ("1, 0", ["1", "0"]),
        ("GPU-a,GPU-b", ["GPU-a", "GPU-b"]),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,1", ["0"]),
    ],
)
def test_which_gpus_are_assigned(value: str, names: list[str]) -> None:
    assert visible_gpus({b"CUDA_VISIBLE_DEVICES": value.encode()}) == names
    assert visible_gpus({}) == []


def test_gpus_by_index_and_by_id(nvml: FakeNvml) -> None:
    (second,) = NvmlGpus(["1"]).read()
    assert second == {"busy": 0.26, "memory_bytes": 2 * MB, "total_memory_bytes": 16 * MB}
    first, other = NvmlGpus(["GPU-a", "GPU-b"]).read()
    assert (first["busy"], other) == (0.25, second)
    assert nvml.calls.count("nvmlDeviceGetMemoryInfo") == 3, "only its own GPUs are read"
    with pytest.raises(NvmlError, match="nvmlDeviceGetHandleByIndex_v2: error 2"):
        NvmlGpus(["7"])


def test_a_program_that_cannot_be_seen_yet_is_looked_for_again_soon() -> None:
    seen: list[ProcessUsage | None] = [None]
    meter = UsageMeter(lambda: seen[0], 0.0)
    assert meter.sample_if_due(FIRST_AFTER_S) is None
    assert meter.latest is None
    seen[0] = ProcessUsage()
    assert meter.sample_if_due(2 * FIRST_AFTER_S) == 0.0
    assert meter.latest is not None


def test_where_linux_does_not_tell_the_end_the_last_sample_stays() -> None:
    unseen = UsageMeter(lambda: None, 0.0)
    unseen.finish(None, 9.0)
    assert unseen.latest is None, "nothing is known, which is not the same as zero"
    program = Program()
    program.after(FIRST_AFTER_S, cpu_s=0.5, memory_bytes=MB)
    program.meter.finish(None, program.now + 2)
    found = program.meter.latest
    assert found is not None
    assert (found["cpu_s"], found["peak_memory_bytes"]) == (0.5, MB)
    assert found["elapsed_s"] == FIRST_AFTER_S + 2


def test_the_memory_of_a_cgroup_is_taken_in_place_of_the_processes() -> None:
    usage = ProcessUsage()
    usage.first, usage.memory_bytes = 7, 90 * MB
    meter = UsageMeter(lambda: usage, 0.0, memory=lambda first: first * MB)
    meter.sample_if_due(FIRST_AFTER_S)
    assert meter.latest is not None
    assert meter.latest["memory_bytes"] == 7 * MB


def test_gpus_are_part_of_the_figures(nvml: FakeNvml) -> None:
    inbox: SimpleQueue[InboxMessage] = SimpleQueue()
    gpus = GpuSampler(["0", "1"], lambda cost_s: 0.01, inbox, time.thread_time)
    eventually(lambda: len(gpus.latest) == 2, 60, "the GPUs are read")
    meter = UsageMeter(ProcessUsage, 0.0, gpus=gpus)
    meter.sample_if_due(10.0)
    assert meter.latest is not None
    found = msgspec.convert(meter.latest, TaskUsage)
    assert [gpu.memory_bytes for gpu in found.gpus] == [MB, 2 * MB]
    assert found.peak_gpu_memory_bytes == 3 * MB
    nvml.is_broken = True
    eventually(lambda: gpus.latest == (), 60, "a driver in trouble")
    meter.finish(rusage(), 20.0)
    assert meter.latest["peak_gpu_memory_bytes"] == 3 * MB
    assert inbox.empty(), "a driver in trouble does not end the starter"


def test_a_node_without_the_library() -> None:
    with pytest.raises(NvmlError, match="libno-such-library"):
        NvmlGpus(["0"], "libno-such-library.so.1")


def test_nothing_is_loaded_for_a_program_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> ctypes.CDLL:
        raise AssertionError(name)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert gpu_meter(None, {b"CUDA_VISIBLE_DEVICES": b""}, SimpleQueue()) is None
