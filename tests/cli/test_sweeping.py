"""What commands do on the way: they never wait for a cluster, nor fail for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ytf.cli import main, sweeping
from ytf.testing.waiting import eventually

SITE = """<configuration>
<property><name>{}</name><value>{}</value></property>
</configuration>"""


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hadoop configuration whose cluster cannot be used, and where a collection says so."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text(SITE.format("fs.defaultFS", "file:///"))
    (conf / "yarn-site.xml").write_text(SITE.format("yarn.resourcemanager.hostname", "nowhere"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    return tmp_path / "home" / "swept"


def test_a_collection_runs_beside_the_command_once_an_hour(
    swept: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # A module of the working directory must not get into the collection.
    Path("ytf.py").write_text("raise SystemExit('the wrong one')")
    assert main.main(["list", "--backend", "local"]) == 0
    [told] = swept.iterdir()
    eventually(lambda: "fs.defaultFS is file:///" in told.read_text(), 30, told.read_text)
    _, status = os.waitpid(-1, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    assert "fs.defaultFS" not in capfd.readouterr().err

    said = told.read_text()
    assert main.main(["list", "--backend", "local"]) == 0
    assert told.read_text() == said
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)

    long_ago = time.time() - 3601
    os.utime(told, (long_ago, long_ago))
    assert main.main(["list", "--backend", "local"]) == 0
    os.waitpid(-1, 0)
    assert told.stat().st_mtime > long_ago + 3000


def test_no_command_fails_for_it(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept.parent.mkdir()
    swept.write_text("in the way")
    sweeping.sweep()
    swept.unlink()
    monkeypatch.setattr("sys.executable", "/not/there")
    sweeping.sweep()


def test_settings_that_are_wrong_are_left_to_whoever_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("YTF_HISTORY_DAYS", "some")
    sweeping.sweep()
