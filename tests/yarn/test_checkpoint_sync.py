"""A checkpoint directory of a real job on a real YARN, in sync with a real HDFS."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.yarn.driver import Yarn
from ytf.processes import children
from ytf.testing.waiting import eventually

TRAIN = """
import os, pathlib, time
gate, place = pathlib.Path(os.environ["GATE"]), pathlib.Path("checkpoints")
place.mkdir(exist_ok=True)
step = 0
if (place / "checkpoint").exists():
    name = (place / "checkpoint").read_text()
    data = (place / name).read_text().split()
    step = int(name.partition("-")[2])
    assert data == [str(step)] * 50000, (name, len(data))
print("begins at", step, flush=True)
(gate / "pid.new").write_text(str(os.getpid()))
(gate / "pid.new").rename(gate / ("pid.%s" % os.environ["YTF_ATTEMPT"]))
events = open(place / ("events.out.tfevents.%s" % os.environ["YTF_ATTEMPT"]), "a")
while not (gate / "go").exists():
    step += 1
    (place / ("ckpt-%d" % step)).write_text(("%d " % step) * 50000)
    (place / "checkpoint.new").write_text("ckpt-%d" % step)
    (place / "checkpoint.new").rename(place / "checkpoint")
    (place / ("ckpt-%d" % (step - 3))).unlink(missing_ok=True)
    events.write("step %d\\n" % step)
    events.flush()
    time.sleep(0.4)
print("leaves", *sorted(os.listdir(place)), flush=True)
print("ends at", step, flush=True)
"""


@pytest.fixture
def place(yarn: Yarn) -> Iterator[str]:
    """Where the checkpoints are synced to: a directory that does not exist yet."""
    root = f"/user/{yarn.name}/synced/rün 10"
    yield root
    yarn.files.delete(f"/user/{yarn.name}/synced")


def read(yarn: Yarn, path: str) -> str:
    try:
        return b"".join(yarn.files.read(path)).decode()
    except FileNotFoundError:
        return ""


def synced_step(yarn: Yarn, place: str) -> int:
    return int(read(yarn, f"{place}/checkpoint").partition("-")[2] or 0)


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def test_a_killed_container_goes_on_in_another_from_the_last_snapshot(
    yarn: Yarn, gate: str, place: str
) -> None:
    (yarn.work / "train.py").write_text(TRAIN)
    spec = {
        "groups": {
            "worker": {"count": 1, "on_failure": "restart-task", "resources": {"memory": 256}}
        },
        "framework": "none",
        "files": {"train.py": "train.py"},
        "command": f"{gate} export GATE; exec python3 train.py",
        "checkpoint_sync": {"dir": "checkpoints", "to": f"hdfs://{place}", "interval_s": 1},
    }
    (yarn.work / "job.yaml").write_text(yaml.safe_dump(spec))
    job = yarn.run("ytf", "submit", "--backend", "yarn", "job.yaml").stdout.strip()

    def told() -> str:
        return f"steps to be synced: {yarn.run('ytf', 'logs', job).stdout}\n{yarn.status(job)}"

    eventually(lambda: synced_step(yarn, place) >= 3, 100, told)
    # What TensorBoard would read, while the program has the file open.
    assert read(yarn, f"{place}/events.out.tfevents.1").startswith("step 1\nstep 2\n")
    container = yarn.status(job)["tasks"][0]["container"]

    program = int((yarn.work / "gate/pid.1").read_text())
    reaper = parent_of(program)
    starter = parent_of(reaper)
    victims = [parent_of(starter), starter, reaper, program, *children(starter)]
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in dict.fromkeys(victims):
            os.kill(pid, signum)
    eventually((yarn.work / "gate/pid.2").exists, 100, "the second attempt to run")
    before = synced_step(yarn, place)
    eventually(lambda: synced_step(yarn, place) > before, 100, told)
    yarn.open_gate()
    status = yarn.wait(job, "SUCCEEDED")
    [task] = status["tasks"]
    assert task["attempt"] == 2
    assert task["container"] != container

    lines = yarn.run("ytf", "logs", job).stdout.splitlines()
    begin = next(line for line in lines if "#2" in line and "begins at" in line)
    end = next(line for line in lines if "#2" in line and "ends at" in line)
    assert int(begin.split()[-1]) >= 3
    last = int(end.split()[-1])
    assert synced_step(yarn, place) == last
    # The plain files are those that the program left, whole, and nothing else.
    left = next(line for line in lines if "#2" in line and "leaves" in line).split("leaves ")[1]
    assert [each.name for each in yarn.files.list(place)] == [".ytf-sync", *left.split()]
    assert read(yarn, f"{place}/ckpt-{last}") == f"{last} " * 50000
    assert read(yarn, f"{place}/events.out.tfevents.2").endswith(f"step {last}\n")
    assert any("restored" in line and "hdfs://" in line for line in lines)
    yarn.nothing_is_left(job)
