"""Submitting: a job is either accepted, or nothing of it is left."""

from __future__ import annotations

import errno
import json
import stat
import time
from pathlib import Path

import msgspec
import pytest

from tests.backends.local.fake_master import FakeMasters
from tests.backends.local.harness import (
    SPEC,
    Submit,
    is_empty,
    is_running,
    master_program,
    node_pid,
)
from ytf.backends.api import Plan, Upload
from ytf.backends.local import submit as submit_module
from ytf.backends.local.backend import LocalJobBackend
from ytf.backends.local.directories import JobDirectories
from ytf.errors import RefusedError, SettingsError, SpecError
from ytf.specs import codec
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec

PLAN = Plan(spec=SPEC, backend="local", user="ada")


def test_the_staging_directory(
    submit: Submit, home: JobDirectories, fake_masters: FakeMasters, tmp_path: Path
) -> None:
    (tmp_path / "träin.py").write_text("pass")
    before = time.time()
    handle = submit(Upload(source=str(tmp_path / "träin.py"), name="träin.py"))
    fake_masters.next()
    directory = home.staging(handle.job)
    for path in (home.root, directory, home.job_history(handle.job) / "logs"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    secret = directory / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert len(bytes.fromhex(secret.read_text())) == 32
    spec = codec.from_json((directory / "spec.json").read_bytes())
    assert spec.command == "true"
    about = json.loads((directory / "job.json").read_bytes())
    assert before <= about.pop("submitted_at") <= time.time()
    assert about == {"id": handle.job, "user": "ada", "backend": "local"}
    assert (directory / "files" / "träin.py").read_text() == "pass"


def test_a_tasks_own_variables_do_not_reach_a_job_it_submits(
    submit: Submit,
    home: JobDirectories,
    fake_masters: FakeMasters,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("YTF_JOB_ID", "local_1_2")
    monkeypatch.setenv("YTF_LOCAL_MEMORY_MB", "100")
    handle = submit()
    fake_masters.next()
    environ = Path(f"/proc/{node_pid(home, handle.job)}/environ").read_bytes()
    assert b"YTF_JOB_ID" not in environ
    assert b"YTF_LOCAL_MEMORY_MB=100" in environ


def test_a_master_that_refuses(home: JobDirectories) -> None:
    refusing = master_program(
        "os.write(int(os.environ['YTF_READY_FD']), b'failed: too late today\\n'); sys.exit(1)"
    )
    with pytest.raises(RefusedError, match="not accepted: too late today"):
        LocalJobBackend(home, master=refusing).submit(PLAN)
    assert is_empty(home)


def test_a_master_that_dies_at_once(home: JobDirectories) -> None:
    with pytest.raises(RefusedError, match=r"before it accepted .*alas") as caught:
        LocalJobBackend(home, master=master_program("sys.exit('alas')")).submit(PLAN)
    assert caught.value.hint
    assert is_empty(home)


def test_a_master_that_dies_as_the_disk_fills_up(
    home: JobDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([1 << 30, 0])
    monkeypatch.setattr(submit_module, "free_bytes", lambda directory: next(free))
    with pytest.raises(SettingsError, match="no space left for"):
        LocalJobBackend(home, master=master_program("sys.exit('alas')")).submit(PLAN)
    assert is_empty(home)


def test_a_master_that_cannot_be_started(home: JobDirectories) -> None:
    with pytest.raises(RefusedError, match="/no/such/python"):
        LocalJobBackend(home, master=["/no/such/python"]).submit(PLAN)
    assert is_empty(home)


def test_a_master_that_never_answers(home: JobDirectories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_module, "_READY_TIMEOUT_S", 0.3)
    silent = master_program("fd = int(os.environ['YTF_NODE_FD'])\nwhile os.read(fd, 999): pass")
    with pytest.raises(ConnectionError, match="did not answer in time"):
        LocalJobBackend(home, master=silent).submit(PLAN)
    assert is_empty(home)


def test_ctrl_c_leaves_nothing(
    home: JobDirectories, fake_masters: FakeMasters, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = []

    def interrupted(node: object, log: Path) -> None:
        job = next(home.jobs.iterdir())
        pids.append(fake_masters.next().pid)
        pids.append(node_pid(home, JobId(job.name)))
        raise KeyboardInterrupt

    monkeypatch.setattr(submit_module._NodeProcess, "wait_until_ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LocalJobBackend(home, master=fake_masters.command).submit(PLAN)
    assert is_empty(home)
    assert [is_running(pid) for pid in pids] == [False, False]


def test_a_missing_upload_leaves_nothing(home: JobDirectories) -> None:
    plan = msgspec.structs.replace(PLAN, uploads=(Upload(source="/no/file", name="x"),))
    with pytest.raises(SpecError, match="/no/file"):
        LocalJobBackend(home).submit(plan)
    assert is_empty(home)


def test_a_full_disk_leaves_nothing(home: JobDirectories, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(spec: JobSpec) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr(submit_module, "to_json", full)
    with pytest.raises(SettingsError, match="no space left for somewhere") as caught:
        LocalJobBackend(home).submit(PLAN)
    assert "YTF_HOME" in str(caught.value.hint)
    assert is_empty(home)


def test_a_home_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"cannot write .*file"):
        LocalJobBackend(JobDirectories(tmp_path / "file" / "home")).submit(PLAN)
