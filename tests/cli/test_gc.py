"""The automatic gc: commands never wait for a cluster, nor fail because of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ytf.cli import gc, main
from ytf.testing.waiting import eventually

SITE = """<configuration>
<property><name>{}</name><value>{}</value></property>
</configuration>"""


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for output of gc of a cluster whose configuration cannot be used."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text(SITE.format("fs.defaultFS", "file:///"))
    (conf / "yarn-site.xml").write_text(SITE.format("yarn.resourcemanager.hostname", "nowhere"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    return tmp_path / "home" / "gc"


def test_a_gc_runs_beside_the_command_once_an_hour(
    reports: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # A module of the working directory must not be imported by the gc.
    Path("ytf.py").write_text("raise SystemExit('the wrong one')")
    assert main.main(["list", "--backend", "local"]) == 0
    [report] = reports.iterdir()
    eventually(lambda: "fs.defaultFS is file:///" in report.read_text(), 30, report.read_text)
    _, status = os.waitpid(-1, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    assert "fs.defaultFS" not in capfd.readouterr().err

    said = report.read_text()
    assert main.main(["list", "--backend", "local"]) == 0
    assert report.read_text() == said
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)

    long_ago = time.time() - 3601
    os.utime(report, (long_ago, long_ago))
    assert main.main(["list", "--backend", "local"]) == 0
    os.waitpid(-1, 0)
    assert report.stat().st_mtime > long_ago + 3000


def test_no_command_fails_because_of_it(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports.parent.mkdir()
    reports.write_text("in the way")
    gc.automatic_gc()
    reports.unlink()
    monkeypatch.setattr("sys.executable", "/not/there")
    gc.automatic_gc()


def test_settings_that_are_wrong_are_left_to_commands_that_need_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("YTF_HISTORY_DAYS", "some")
    gc.automatic_gc()


def _old_record(home: Path) -> Path:
    record = home / "history" / "local_1_a" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    long_ago = time.time() - 86400
    os.utime(record.parent, (long_ago, long_ago))
    os.utime(record, (long_ago, long_ago))
    return record


def test_a_projects_file_cannot_have_records_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record = _old_record(tmp_path / "home")
    Path("ytf.toml").write_text("history_days = 0\n")
    gc.automatic_gc()
    assert record.exists()
    said = capfd.readouterr().err
    assert "ignored: history_days in" in said
    assert "YTF_HISTORY_DAYS" in said
    Path(tmp_path, "home", "ytf.toml").write_text("history_days = 0\n")
    gc.automatic_gc()
    assert not record.exists()


def test_a_home_that_others_can_write_is_neither_used_nor_in_the_way(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _old_record(tmp_path / "home")
    Path(tmp_path, "home").chmod(0o777)
    gc.automatic_gc()
    assert main.main(["list", "--backend", "local"]) == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert f"{tmp_path}/home can be written by everyone: ytf keeps no files there" in said
    assert "hint: look at what is in it, then: chmod go-w" in said
