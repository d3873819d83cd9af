"""Submitting: all of it, or nothing is left. Looking for jobs, and sweeping."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.backends.local.conftest import Submit, eventually, is_running, node_pid
from tests.backends.local.puppet import Strings
from ytf import processes
from ytf.backends.local import submission
from ytf.backends.local.burial import remove_leftovers
from ytf.backends.local.home import Home
from ytf.backends.local.jobs import LocalJobs
from ytf.backends.local.record import write_last_record
from ytf.client.plan import Plan, Upload
from ytf.errors import NotFoundError, RefusedError, SettingsError, SpecError
from ytf.specs import codec
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.names import JobId
from ytf.specs.status import JobState

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true", name="näme")
PLAN = Plan(spec=SPEC, backend="local", user="ada")
OLD = JobId("local_20200101000000_abcd")


def is_empty(home: Home) -> bool:
    return not any(home.jobs.iterdir()) and not any(home.history.iterdir())


def program(text: str) -> list[str]:
    """A master that is just this program."""
    return [sys.executable, "-I", "-S", "-c", f"import os, sys, time\n{text}"]


def staged(home: Home, job: JobId = OLD) -> Path:
    """A staging directory as a submission leaves it, with a node long dead."""
    home.ensure()
    directory = home.staging(job)
    directory.mkdir()
    (directory / "spec.json").write_text(codec.to_json(SPEC))
    about = {"id": job, "user": "ada", "submitted_at": 1.5, "backend": "local"}
    (directory / "job.json").write_text(json.dumps(about))
    (directory / "node.json").write_text('{"pid": 1, "start_ticks": 7}')
    home.logs(job).mkdir(parents=True)
    return directory


class TestSubmit:
    def test_the_staging_directory(
        self, submit: Submit, home: Home, strings: Strings, tmp_path: Path
    ) -> None:
        (tmp_path / "träin.py").write_text("pass")
        before = time.time()
        handle = submit(Upload(source=str(tmp_path / "träin.py"), name="träin.py"))
        strings.next()
        directory = home.staging(handle.job)
        for path in (home.root, directory, home.kept(handle.job) / "logs"):
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
        self, submit: Submit, home: Home, strings: Strings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("YTF_JOB_ID", "local_1_2")
        monkeypatch.setenv("YTF_LOCAL_MEMORY_MB", "100")
        handle = submit()
        strings.next()
        environ = Path(f"/proc/{node_pid(home, handle.job)}/environ").read_bytes()
        assert b"YTF_JOB_ID" not in environ
        assert b"YTF_LOCAL_MEMORY_MB=100" in environ

    def test_a_master_that_refuses(self, home: Home) -> None:
        refusing = program(
            "os.write(int(os.environ['YTF_READY_FD']), b'failed: too late today\\n'); sys.exit(1)"
        )
        with pytest.raises(RefusedError, match="not accepted: too late today"):
            LocalJobs(home, master=refusing).submit(PLAN)
        assert is_empty(home)

    def test_a_master_that_dies_at_once(self, home: Home) -> None:
        with pytest.raises(RefusedError, match=r"before it accepted .*alas") as caught:
            LocalJobs(home, master=program("sys.exit('alas')")).submit(PLAN)
        assert caught.value.hint
        assert is_empty(home)

    def test_a_master_that_cannot_be_started(self, home: Home) -> None:
        with pytest.raises(RefusedError, match="/no/such/python"):
            LocalJobs(home, master=["/no/such/python"]).submit(PLAN)
        assert is_empty(home)

    def test_a_master_that_never_answers(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(submission, "_READY_S", 0.3)
        silent = program("fd = int(os.environ['YTF_NODE_FD'])\nwhile os.read(fd, 999): pass")
        with pytest.raises(ConnectionError, match="did not answer in time"):
            LocalJobs(home, master=silent).submit(PLAN)
        assert is_empty(home)

    def test_ctrl_c_leaves_nothing(
        self, home: Home, strings: Strings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pids = []

        def interrupted(node: object, log: Path) -> None:
            job = next(home.jobs.iterdir())
            pids.append(strings.next().pid)
            pids.append(node_pid(home, JobId(job.name)))
            raise KeyboardInterrupt

        monkeypatch.setattr(submission._Node, "wait_until_ready", interrupted)
        with pytest.raises(KeyboardInterrupt):
            LocalJobs(home, master=strings.command).submit(PLAN)
        assert is_empty(home)
        assert [is_running(pid) for pid in pids] == [False, False]

    def test_a_missing_upload_leaves_nothing(self, home: Home) -> None:
        plan = msgspec.structs.replace(PLAN, uploads=(Upload(source="/no/file", name="x"),))
        with pytest.raises(SpecError, match="/no/file"):
            LocalJobs(home).submit(plan)
        assert is_empty(home)

    def test_a_full_disk_leaves_nothing(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(spec: JobSpec) -> str:
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

        monkeypatch.setattr(submission, "to_json", full)
        with pytest.raises(SettingsError, match="no space left for somewhere") as caught:
            LocalJobs(home).submit(PLAN)
        assert "YTF_HOME" in str(caught.value.hint)
        assert is_empty(home)

    def test_a_home_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SettingsError, match=r"cannot write .*file"):
            LocalJobs(Home(tmp_path / "file" / "home")).submit(PLAN)


class TestFinding:
    def test_no_such_job(self, home: Home) -> None:
        staged(home)
        with pytest.raises(NotFoundError) as caught:
            LocalJobs(home).open(JobId(OLD[:-1] + "e"))
        assert caught.value.hint == f"did you mean '{OLD}'?"
        with pytest.raises(NotFoundError):
            LocalJobs(home).open(JobId("../../etc"))

    def test_a_list_of_ended_and_dead_jobs(self, home: Home) -> None:
        write_last_record(str(staged(home)), "gone")
        later = JobId("local_20200102000000_abcd")
        staged(home, later)
        backend = LocalJobs(home, master=program("sys.exit(1)"))
        assert [(job.id, job.name, job.user, job.state) for job in backend.list()] == [
            (OLD, "näme", "ada", JobState.FAILED),
            (later, "näme", "ada", JobState.FAILED),
        ]
        # The dead one was buried on the way.
        assert not home.staging(later).exists()

    def test_a_job_whose_master_is_away(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ytf.backends.local.jobs._LIST_PATIENCE_S", 0.1)
        me = {"pid": os.getpid(), "start_ticks": processes.start_ticks(os.getpid())}
        (staged(home) / "node.json").write_text(json.dumps(me))
        found = LocalJobs(home).list()
        assert [(job.name, job.state, job.started) for job in found] == [
            ("näme", JobState.SUBMITTED, 1.5)
        ]

    def test_nothing_there(self, home: Home) -> None:
        assert LocalJobs(home).list() == []
        assert LocalJobs(home).sweep() == []


class TestSweep:
    def test_a_dead_job_is_buried(self, home: Home, tmp_path: Path) -> None:
        directory = staged(home)
        (directory / "journal" / "0003").mkdir(parents=True)
        seen = tmp_path / "seen"
        master = program(f"open({str(seen)!r}, 'w').write(' '.join(sys.argv[1:]))")
        assert LocalJobs(home, master=master).sweep() == [OLD]
        assert seen.read_text().startswith(
            f"--backend local --job-dir {directory} --attempt 4 --bury the job's node and master"
        )
        assert not directory.exists()
        status = LocalJobs(home).open(OLD).status()
        assert (status.state, status.user) == (JobState.FAILED, "ada")
        assert LocalJobs(home).sweep() == []

    def test_a_burial_that_fails_says_so_in_the_record(self, home: Home) -> None:
        staged(home)
        LocalJobs(home, master=program("sys.exit(9)")).sweep()
        diagnostics = LocalJobs(home).open(OLD).status().diagnostics
        assert "node and master died" in diagnostics
        assert "exit status 9" in diagnostics

    def test_processes_of_a_dead_job_are_ended(self, home: Home) -> None:
        staged(home)
        pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {"YTF_JOB_ID": OLD})
        # Its parent being this test, it stays a zombie until waited for.
        LocalJobs(home, master=program("")).sweep()
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL

    def test_a_recorded_job_that_was_not_removed_is(self, home: Home) -> None:
        directory = staged(home)
        write_last_record(str(directory), "known")
        assert LocalJobs(home, master=["/not/needed"]).sweep() == []
        assert not directory.exists()
        assert LocalJobs(home).open(OLD).status().diagnostics == "known"

    def test_a_half_made_job_goes_after_a_minute_unless_it_is_being_made(self, home: Home) -> None:
        directory = staged(home)
        (directory / "node.json").unlink()
        backend = LocalJobs(home)
        backend.sweep()
        assert directory.exists()
        minutes_ago = time.time() - 120
        os.utime(directory, (minutes_ago, minutes_ago))
        held = os.open(directory, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        backend.sweep()
        assert directory.exists()
        os.close(held)
        assert backend.sweep() == []
        assert is_empty(home)

    def test_a_running_job_is_left_alone(
        self, submit: Submit, home: Home, strings: Strings
    ) -> None:
        job = submit().job
        master = strings.next()
        assert LocalJobs(home).sweep() == []
        assert home.staging(job).exists()
        master.send(op="finished")
        master.end()
        eventually(lambda: not home.staging(job).exists(), "the job's end")

    def test_old_history_goes(self, home: Home) -> None:
        home.ensure()
        for job, days in ((OLD, 8), (JobId("local_20200102000000_abcd"), 6)):
            (home.logs(job) / "worker-0").mkdir(parents=True)
            then = time.time() - days * 86400
            os.utime(home.kept(job), (then, then))
        LocalJobs(home).sweep()
        assert [path.name for path in home.history.iterdir()] == ["local_20200102000000_abcd"]

    def test_what_cannot_be_removed_is_said_and_hinders_nothing(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        later = JobId("local_20200102000000_abcd")
        for job in (OLD, later):
            write_last_record(str(staged(home, job)), "known")

        def refuse(path: Path) -> None:
            if path.name == OLD:
                raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
            remove_leftovers(path)

        monkeypatch.setattr("ytf.backends.local.sweep.remove_leftovers", refuse)
        LocalJobs(home).sweep()
        assert [path.name for path in home.jobs.iterdir()] == [OLD]
        assert f"what {OLD} left cannot be removed" in caplog.text

    def test_it_reads_no_file_when_there_is_nothing_to_do(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home.ensure()
        for number in range(3):
            home.kept(JobId(f"local_2020_{number}")).mkdir()
        backend = LocalJobs(home)
        backend.sweep()

        def forbidden(path: object, *_: object, **__: object) -> None:
            raise AssertionError(f"{path} was opened")

        monkeypatch.setattr("builtins.open", forbidden)
        monkeypatch.setattr("io.open", forbidden)
        assert backend.sweep() == []


def test_the_home_follows_the_variable(tmp_path: Path) -> None:
    assert Home.of({"YTF_HOME": str(tmp_path / "ö")}).root == tmp_path / "ö"
    assert Home.of({"YTF_HOME": "relative"}).root == Path.cwd() / "relative"
    assert Home.of({}).root == Path.home() / ".ytf"
