"""The command line of ``ytf cluster``: its options and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.cli import cluster, main
from ytf.minicluster import ClusterOptions, MiniCluster, Queue


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "which command?"),
        ("upp", "invalid choice: 'upp'"),
        ("up --nodes two", "--nodes: invalid int value: 'two'"),
        ("up --nodes 0", "--nodes: 0 is not between"),
        ("up --name ../x", "--name: '../x' is not a name"),
        ("up --queues a:1", "--queues: the queues' shares are 1 % together"),
        ("up --labels gpu", "--labels: 'gpu' is not <label>=<node>"),
        ("up -D x", "-D: 'x' is not <property>=<value>"),
        ("up --hadoop new", "--hadoop: 'new' is not a release"),
        ("kill", "required: DAEMON"),
    ],
)
def test_wrong_usage(words: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["cluster", *words.split()]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err.splitlines()[0]
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize("command", ["down", "status", "env", "failover", "kill rm", "restart rm"])
def test_no_such_cluster(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "home" / "clusters" / "other"
    other.mkdir(parents=True)
    (other / "cluster.json").touch()
    assert main.main(["cluster", *command.split()]) == 1
    out, err = capfd.readouterr()
    assert (out, err) == (
        "",
        "ytf: error: there is no cluster default\nhint: there is other: give one with --name\n",
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [("kill", "ytf: nm1 is killed\n"), ("restart", "ytf: nm1 serves again\n")],
)
def test_what_was_done_to_a_daemon_is_said(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(MiniCluster, "open", lambda directory, **_: MiniCluster(directory))
    monkeypatch.setattr(MiniCluster, command, lambda _, name: done.append(name))
    assert main.main(["cluster", command, "nm1"]) == 0
    assert done == ["nm1"]
    assert capfd.readouterr() == ("", said)


def test_the_record_of_something_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "home" / "clusters" / "default"
    place.mkdir(parents=True)
    (place / "cluster.json").write_text("{}")
    assert main.main(["cluster", "status"]) == 2
    assert "is not the record of a cluster" in capfd.readouterr().err


def test_the_options_of_up() -> None:
    words = (
        "cluster up --hadoop 3.5.0 --nodes 3 --memory 4096 --vcores 4 --gpus 2 --queues a:30,b:70 "
        "--preemption --labels gpu=nm3 --zookeeper --ha --heap 128 -D yarn.a=1 -D b=2"
    )
    assert cluster.options_of(main.parse(words.split())) == ClusterOptions(
        version="3.5.0",
        nodes=3,
        node_memory_mb=4096,
        node_vcores=4,
        gpus=2,
        queues=(Queue("a", 30), Queue("b", 70)),
        preemption=True,
        labels={"nm3": "gpu"},
        zookeeper=True,
        ha=True,
        heap_mb=128,
        properties={"yarn.a": "1", "b": "2"},
    )
    assert cluster.options_of(main.parse(["cluster", "up"])) == ClusterOptions()
