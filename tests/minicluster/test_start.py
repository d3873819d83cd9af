"""Starts that fail: their errors, and that they leave nothing behind. Needs no JVM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.minicluster.conftest import FakeJava
from ytf.errors import NotFoundError, SettingsError
from ytf.minicluster import ClusterError, MiniCluster
from ytf.minicluster.processes import all_of
from ytf.testing.waiting import eventually


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "clusters" / "one"


def test_a_daemon_that_dies_is_named_with_its_last_words(place: Path, fake_java: FakeJava) -> None:
    fake_java('case "$*" in *.ResourceManager) echo "FATAL no such queue" >&2; exit 1 ;; esac')
    with pytest.raises(ClusterError) as caught:
        MiniCluster(place).start()
    assert str(caught.value) == (
        "ResourceManager rm ended; the last lines of its log:\nFATAL no such queue"
    )
    assert str(place / "logs" / "rm.log") in str(caught.value.hint)
    assert all_of(place) == []
    assert [path.name for path in place.iterdir()] == ["logs"]
    with pytest.raises(NotFoundError):
        MiniCluster.open(place)


def test_a_failed_start_is_no_obstacle_to_the_next(place: Path, fake_java: FakeJava) -> None:
    fake_java('echo "what we have"; exit 3')
    for _ in range(2):
        with pytest.raises(ClusterError, match=r"could not format HDFS \(exit code 3\).*\nwhat we"):
            MiniCluster(place).start()
    MiniCluster(place).stop()
    assert not place.exists()


def test_a_port_that_was_taken_meanwhile(place: Path, fake_java: FakeJava) -> None:
    fake_java('case "$*" in *.DataNode) echo "java.net.BindException: in use"; exit 1 ;; esac')
    said: list[str] = []
    with pytest.raises(ClusterError, match=r"BindException"):
        MiniCluster(place, on_progress=said.append).start()
    assert said.count("another process took a port meanwhile: trying others") == 2
    assert all_of(place) == []


def test_a_start_has_a_deadline(place: Path, fake_java: FakeJava) -> None:
    with pytest.raises(ClusterError, match=r"in vain for HDFS to be writable"):
        MiniCluster(place).start(timeout_s=0.3)
    assert all_of(place) == []


@pytest.mark.parametrize("character", [":", ",", "'", "%", "$"])
def test_a_directory_that_hadoop_cannot_name(character: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"does not cope with \{character} in its paths"):
        MiniCluster(tmp_path / f"a{character}b")


def test_stopping_what_is_not_there(place: Path) -> None:
    MiniCluster(place).stop()
    MiniCluster(place).stop(keep=True)
    assert not place.exists()


@contextmanager
def starting(code: list[str], place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that starts a cluster, once the cluster's daemons are there."""
    with subprocess.Popen(code, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: len(all_of(place)) == 5, describe="five daemons")
            yield process
        finally:
            process.kill()


OWNED = (
    "import sys; from pathlib import Path; from ytf.minicluster import MiniCluster\n"
    "MiniCluster(Path(sys.argv[1]), stop_with_owner=True).start()"
)


def test_a_cluster_ends_with_its_owner(place: Path, fake_java: FakeJava) -> None:
    with starting([sys.executable, "-c", OWNED, str(place)], place) as process:
        process.kill()
        eventually(lambda: not all_of(place) and not place.exists(), 20.0, "nothing left")


def test_a_cluster_whose_directory_was_removed_ends_with_its_owner(
    place: Path, fake_java: FakeJava
) -> None:
    with starting([sys.executable, "-c", OWNED, str(place)], place) as process:
        os.kill(process.pid, signal.SIGSTOP)  # or it would write to the directory
        shutil.rmtree(place)
        process.kill()
        eventually(lambda: not all_of(place), 20.0, "no daemon")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_cleans_up_when_it_is_interrupted(
    number: signal.Signals, tmp_path: Path, fake_java: FakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a home"
    monkeypatch.setenv("YTF_HOME", str(home))
    place = home / "clusters" / "default"
    ytf = [sys.executable, "-c", "from ytf.cli.main import main; raise SystemExit(main())"]
    with starting([*ytf, "cluster", "up"], place) as process:
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert f"stopped by {number.name}: nothing was left running" in said
        assert all_of(place) == []
