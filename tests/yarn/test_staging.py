"""Stage-in and stage-out of real jobs on a real YARN, for programs that cannot read HDFS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.yarn.driver import Yarn

TREE = {
    "train/part 0.csv": "0",
    "train/pärt 1.csv": "1",
    "train/part2.csv": "2",
    "train/empty": "",
    "test/deep/er/x": "x",
}


@pytest.fixture
def place(yarn: Yarn) -> Iterator[str]:
    """A directory in HDFS with odd names, empty files and an empty directory."""
    root = f"/user/{yarn.name}/staged"
    for name, text in TREE.items():
        yarn.files.mkdir(f"{root}/{name}".rpartition("/")[0], 0o755)
        yarn.files.write(f"{root}/{name}", [text.encode()], 0o644)
    yarn.files.mkdir(f"{root}/test/nothing in it", 0o755)
    yield f"{yarn.cluster.hdfs_url}{root}"
    yarn.files.delete(root)


def test_files_come_and_go(yarn: Yarn, place: str) -> None:
    job = yarn.submit(
        "chief:1,worker:2",
        "mkdir out; find parts test -type f -o -type d -empty | sort > 'out/what is thére'; "
        "cat parts/* > out/content; : > out/empty",
        *("--stage_in", f"chief:{place}/test"),
        *("--stage_in", f"chief:{place}/train:parts"),
        *("--stage_in_sharded", f"worker:{place}/train/{{part,p?rt}}*:parts"),
        *("--stage_out", f"out:{place}/results/{{job}}/{{task}}"),
    )
    status = yarn.wait(job, "SUCCEEDED")
    assert {task["state"] for task in status["tasks"]} == {"SUCCEEDED"}
    root = place.removeprefix(yarn.cluster.hdfs_url)
    results = f"{root}/results/{job}"
    assert [each.name for each in yarn.files.list(results)] == ["chief-0", "worker-0", "worker-1"]

    def read(task: str, name: str) -> str:
        return b"".join(yarn.files.read(f"{results}/{task}/{name}")).decode()

    assert read("chief-0", "what is thére").splitlines() == [
        "parts/empty",
        "parts/part 0.csv",
        "parts/part2.csv",
        "parts/pärt 1.csv",
        "test/deep/er/x",
        "test/nothing in it",
    ]
    assert read("chief-0", "content") == "021"
    assert sorted(read("worker-0", "content") + read("worker-1", "content")) == ["0", "1", "2"]
    assert read("worker-0", "empty") == ""
    logs = yarn.run("ytf", "logs", job, "worker:0").stdout
    assert "ytf: stage-in: 2 files, 2 B, in" in logs
    assert "ytf: stage-out: out to hdfs://" in logs
    yarn.nothing_is_left(job)


def test_what_cannot_be_staged_is_told_before_the_program_runs(yarn: Yarn, place: str) -> None:
    job = yarn.submit(
        "worker:1,other:1",
        "echo it ran; sleep 1000",
        *("--stage_in", f"worker:{place}/no such*"),
        *("--stage_out", f"other:out:{place}/train"),
        *("--on_failure", "ignore"),
    )
    status = yarn.wait(job, "FAILED")
    reasons = {task["group"]: task["reason"] for task in status["tasks"]}
    assert f"stage-in failed: there is no {place}/no such* to stage in" in reasons["worker"]
    assert f"stage-out failed: {place}/train has files already" in reasons["other"]
    assert "it ran" not in yarn.run("ytf", "logs", job).stdout
    yarn.nothing_is_left(job)
