"""Processes of one task, and Horovod's rendezvous, across the nodes of a real YARN."""

from __future__ import annotations

from pathlib import Path

from tests.yarn.driver import Yarn

CLIENT = Path(__file__).parents[2] / ".cache" / "horovod" / "horovod_client"


def test_horovods_own_client_in_tasks_of_two_processes(yarn: Yarn) -> None:
    assert CLIENT.exists(), "run scripts/environment horovod"
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", "--wait", "--framework", "horovod", "-m", "128",
        "--files", str(CLIENT), "-r", "worker:2", "--processes", "2", "./horovod_client",
    )  # fmt: skip
    job = done.stdout.strip()
    lines = yarn.run("ytf", "logs", job).stdout.splitlines()
    assert sorted(line for line in lines if "FINAL" in line) == [
        "worker:0 | [0] FINAL rank=0 all=10 local=3 cross=4",
        "worker:0 | [1] FINAL rank=1 all=10 local=3 cross=6",
        "worker:1 | [2] FINAL rank=2 all=10 local=7 cross=4",
        "worker:1 | [3] FINAL rank=3 all=10 local=7 cross=6",
    ]
    yarn.nothing_is_left(job)
