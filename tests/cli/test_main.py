from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from ytf.backends.api import LogLine, Notify, RemovedItem, ignore_notice
from ytf.cli import logs, main
from ytf.cli.parser import Parser
from ytf.client.last_job import remember_last_job
from ytf.client.log_selection import select_logs
from ytf.specs.ids import JobId, TaskId
from ytf.specs.job import Resources
from ytf.specs.status import ClusterSpec, JobEvent, JobState, JobSummary, TaskState

FAILED = status(
    JobState.FAILED,
    task("ps", 0, TaskState.KILLED, host="h1", port=4001),
    task("worker", 0, TaskState.FAILED, exit_code=3, host="h2", port=4002, reason="broke"),
    task("worker", 1, TaskState.PENDING, attempt=0),
    diagnostics="worker:0 broke\n",
)

USAGE: list[tuple[list[str], str, str]] = [
    (["list", "--state", "DONE"], "--state: there is no state 'DONE'", "SUCCEEDED"),
    (["list", "--limit", "few"], "--limit: 'few' is not a number", ""),
    (["list", "--limit", "3", "--all"], "--all and --limit exclude each other", ""),
    (["submit", "job.yaml", "--logs"], "--logs goes with --wait only", "ytf logs -f @last"),
    (["statsu", str(JOB)], "invalid choice: 'statsu'", "did you mean 'status'?"),
    (["status"], "required: ID", "ytf status --help"),
    (["top", JOB, "--sort", "memroy"], "'memroy'", "see ytf top --help"),
    (["top", JOB, "--interval", "often"], "'often' is not a time", "90s"),
    (["status", JOB, "--jsn"], "--jsn", "did you mean '--json'?"),
    (["status", JOB, "more"], "unrecognized arguments: more", ""),
    (["logs", "-n", "5", JOB], "unrecognized arguments: -n", "see ytf logs --help"),
    (["logs", JOB, "--tail", "all"], "--tail: 'all' is not a number", ""),
    (
        ["cluster", "up", "--nods", "3"],
        "unrecognized arguments: --nods 3",
        "did you mean '--nodes'?",
    ),
    (["attach", JOB], "expected one command to attach, got 0 words", "quote it"),
    (["attach", JOB, "python", "x.py"], "got 2 words", "quote it"),
    (["attach", JOB, "python", "--steps", "3"], "got 3 words", "quote it"),
    (["attach", JOB, "true", "--index", "-1"], "--index", ""),
    (["attach", JOB, "--indx", "3", "true"], "--indx", "did you mean '--index'?"),
    (["attach", JOB, ""], "the command to attach is empty", ""),
    (["attach", JOB, "--index", "3", " "], "the command to attach is empty", ""),
    (["shell", JOB], "required: TASK", "ytf shell --help"),
    (["shell", JOB, "worker:0", "-t", "top"], "'-t' is not a command", "before the job"),
    (["shell", JOB, "worker:0", "--", " "], "the command to run is empty", ""),
    (["shell", JOB, " "], "which task?", "worker:0"),
    (["submit", "job.yaml", "--json"], "--json goes with --dryrun only", ""),
    (["submit", "no.yaml"], "cannot read no.yaml: No such file", ""),
    (["list", "--backend", "slurm"], "there is no backend 'slurm'", "local, yarn"),
]


@pytest.mark.parametrize(("words", "message", "hint"), USAGE, ids=[" ".join(c[0]) for c in USAGE])
def test_wrong_usage_is_said_once_and_clearly(
    words: list[str], message: str, hint: str, install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install()
    assert main.main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith("ytf: error: ")
    assert message in lines[0]
    assert len(lines) <= 2
    assert hint in "".join(lines[1:])


def test_only_the_id_of_a_job_is_required_for_its_logs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["logs"]) == 2
    assert capfd.readouterr().err == (
        "ytf: error: the following arguments are required: ID\nhint: see ytf logs --help\n"
    )


@pytest.mark.parametrize("command", ["status", "top", "logs", "kill", "spec", "events"])
@pytest.mark.parametrize(
    ("job", "message"),
    [("local_2_b", "there is no job local_2_b"), ("x", "you have no job with the id or name 'x'")],
)
def test_a_job_that_is_not_there(
    command: str, job: str, message: str, install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install()
    assert main.main([command, job]) == 1
    assert message in capfd.readouterr().err


class TestStatus:
    def test_json_has_the_fields_of_the_contract(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install(FAILED)
        assert main.main(["status", JOB, "--json"]) == 0
        told = json.loads(capfd.readouterr().out)
        assert " ".join(told) == (
            "id name user queue backend state final_status diagnostics started finished "
            "tracking_url tensorboard_url tasks"
        )
        assert " ".join(told["tasks"][0]) == (
            "group index state attempt exit_code signal host port container node log_url reason "
            "memory_mb vcores usage"
        )
        assert told["state"] == told["final_status"] == "FAILED"
        assert backend.sweeps == 1

    def test_text_in_a_pipe(self, install: Install, capfd: pytest.CaptureFixture[str]) -> None:
        install(FAILED)
        assert main.main(["status", JOB]) == 0
        out = capfd.readouterr().out
        assert out.startswith(f"job:         {JOB}\nname:        TensorFlow\n")
        assert out.endswith(
            "TASK      STATE    ATTEMPT  WHERE    ENDED\n"
            "ps:0      KILLED   1        h1:4001  -\n"
            "worker:0  FAILED   1        h2:4002  exit code 3, broke\n"
            "worker:1  PENDING  -        -        -\n"
            "\n"
            "worker:0 broke\n"
        )

    def test_a_success_has_its_exit_code_and_the_place_of_the_logs(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        logs = "file:///a%20b/logs"
        tasks = [
            task("worker", i, TaskState.SUCCEEDED, exit_code=0, log_url=f"{logs}/worker-{i}/1")
            for i in range(2)
        ]
        install(status(JobState.SUCCEEDED, *tasks))
        assert main.main(["status", JOB]) == 0
        out = capfd.readouterr().out
        assert "logs:        /a b/logs\n" in out
        assert out.splitlines()[-1].endswith("  exit code 0")


def test_list(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(FAILED)
    assert main.main(["list"]) == 0
    out, err = capfd.readouterr()
    assert out.splitlines()[1].split()[:5] == [JOB, "TensorFlow", "alice", "FAILED", "default"]
    assert err == ""
    assert main.main(["list", "--json"]) == 0
    (told,) = json.loads(capfd.readouterr().out)
    assert " ".join(told) == "id name user queue backend state started finished"


class TestBackendLine:
    """One line says which backend is used, but only where that may surprise."""

    LINE = "ytf: backend local (no Hadoop configuration found)\n"

    def test_not_where_the_last_job_went_there_too(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install(FAILED)
        assert main.main(["list"]) == 0
        remember_last_job("local", JOB)
        assert main.main(["list"]) == 0
        assert capfd.readouterr().err == ""

    def test_where_the_last_job_went_elsewhere(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install(FAILED)
        remember_last_job("yarn", JobId("application_1_0001"))
        assert main.main(["list"]) == 0
        assert capfd.readouterr().err == self.LINE
        assert main.main(["gc", "--dryrun"]) == 0
        assert capfd.readouterr().err.startswith(self.LINE)
        for words in (["list", "--backend", "local"], ["list", "--json"]):
            assert main.main(words) == 0
            assert capfd.readouterr().err == ""

    def test_where_a_hadoop_is_there_without_its_configuration(
        self, install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install(FAILED)
        remember_last_job("local", JOB)
        monkeypatch.setenv("HADOOP_HOME", "/opt/hadoop")
        assert main.main(["list"]) == 0
        assert capfd.readouterr().err == self.LINE
        monkeypatch.setenv("YTF_BACKEND", "local")
        assert main.main(["list"]) == 0
        assert capfd.readouterr().err == ""


class TestList:
    @staticmethod
    def summary(number: int, **fields: Any) -> JobSummary:
        return JobSummary(
            **{
                "id": JobId(f"local_20261116212931_{number:04}"),
                "name": "train",
                "user": "alice",
                "queue": "default",
                "backend": "local",
                "state": JobState.SUCCEEDED,
                "started": 1_000_000_000.0 - number,
                "finished": 1_000_000_100.0,
                **fields,
            }
        )

    @pytest.fixture
    def jobs(self, install: Install, monkeypatch: pytest.MonkeyPatch) -> list[JobSummary]:
        known = [
            self.summary(1, state=JobState.RUNNING),
            self.summary(2, name="evaluate", user="bob"),
            self.summary(3, state=JobState.FAILED, name="train-big"),
            self.summary(4, state=JobState.SUBMITTED),
        ]
        monkeypatch.setattr(install(FAILED), "list", lambda: known)
        return known

    @pytest.mark.parametrize(
        ("words", "numbers"),
        [
            ([], [1, 2, 3, 4]),
            (["--all"], [1, 2, 3, 4]),
            (["--state", "failed, RUNNING"], [1, 3]),
            (["--state", "failed", "--state", "running"], [1, 3]),
            (["--running"], [1, 4]),
            (["--running", "--state", "FAILED"], [1, 3, 4]),
            (["--name", "train"], [1, 4]),
            (["--name", "train*"], [1, 3, 4]),
            (["--user", "bob"], [2]),
            (["-n", "2"], [1, 2]),
            (["--limit", "1", "--name", "train-*"], [3]),
        ],
    )
    def test_filters_and_limit(
        self,
        words: list[str],
        numbers: list[int],
        jobs: list[JobSummary],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        assert main.main(["list", "--json", *words]) == 0
        told = json.loads(capfd.readouterr().out)
        assert [job["id"] for job in told] == [jobs[number - 1].id for number in numbers]

    def test_nothing_found_is_said(
        self, jobs: list[JobSummary], capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert main.main(["list", "--name", "no*"]) == 0
        assert capfd.readouterr().err == "ytf: no job matches on the backend local\n"
        jobs.clear()
        assert main.main(["list"]) == 0
        assert capfd.readouterr().err == "ytf: no jobs are known on the backend local\n"


def test_spec(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    backend = install()
    assert main.main(["spec", JOB]) == 1
    assert "has no cluster spec" in capfd.readouterr().err
    backend.handle.spec = ClusterSpec(generation=1, revision=2, members={"ps": ("h:1", "h:2")})
    assert main.main(["spec", JOB]) == 0
    assert json.loads(capfd.readouterr().out) == {"ps": ["h:1", "h:2"]}


def test_events(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    backend = install()
    backend.handle.happened = [JobEvent(at=0.0, event="task-exited", task="ps:0", text="code 1")]
    assert main.main(["events", JOB, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == [
        {"at": 0.0, "event": "task-exited", "task": "ps:0", "text": "code 1"}
    ]
    assert main.main(["events", JOB]) == 0
    assert capfd.readouterr().out.splitlines()[1].split()[2:] == [
        "ps:0",
        "task-exited",
        "code",
        "1",
    ]
    backend.handle.happened = [
        JobEvent(at=0.0, event="job-finished", text="The job FAILED: x\nmore")
    ]
    assert main.main(["events", JOB]) == 0
    assert capfd.readouterr().out.splitlines()[1].endswith("job-finished  The job FAILED: x …")


def test_kill(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    backend = install(status(JobState.RUNNING))
    assert main.main(["kill", JOB]) == 0
    assert backend.handle.killed == ["asked for with ytf kill"]
    assert "is being killed" in capfd.readouterr().err
    backend = install(FAILED)
    assert main.main(["kill", JOB]) == 0
    assert backend.handle.killed == []
    assert "has already ended: FAILED" in capfd.readouterr().err


def test_kill_waits_for_the_end_if_asked_to(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install(status(JobState.RUNNING))
    assert main.main(["kill", "--wait", "local_2_b", "TensorFlow"]) == 1
    assert backend.handle.killed == ["asked for with ytf kill"]
    err = capfd.readouterr().err
    assert "there is no job local_2_b" in err
    assert err.endswith(f"ytf: job {JOB} is being killed\nytf: job {JOB} has ended: KILLED\n")
    install(FAILED)
    assert main.main(["kill", "--wait", JOB]) == 0
    assert capfd.readouterr().err == f"ytf: job {JOB} has already ended: FAILED\n"


def test_killing_several_goes_on_after_one_that_is_not_there(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install(status(JobState.RUNNING))
    assert main.main(["kill", "local_2_b", JOB]) == 1
    assert backend.handle.killed == ["asked for with ytf kill"]
    err = capfd.readouterr().err
    assert "there is no job local_2_b" in err
    assert f"job {JOB} is being killed" in err


def test_an_id_of_a_backend_that_is_not_here(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert main.main(["status", "application_1234_0001"]) == 2
    err = capfd.readouterr().err
    assert "application_1234_0001 is a job of the backend yarn: no Hadoop configuration" in err
    assert "set HADOOP_CONF_DIR" in err


def test_a_home_that_is_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "file"))
    assert main.main(["list"]) == 2
    assert f"{tmp_path / 'file'} is not a directory" in capfd.readouterr().err


class TestLogs:
    LINES = (
        LogLine(TaskId("worker:0"), 1, "stdout", "ünï"),
        LogLine(TaskId("worker:0"), 2, "stderr", ""),
        LogLine(TaskId("ps:0"), 1, "stdout", "x"),
    )

    def test_lines_have_their_task_before_them(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install(FAILED)
        backend.handle.lines = list(self.LINES)
        assert main.main(["logs", JOB]) == 0
        assert capfd.readouterr().out == "worker:0 | ünï\nworker:0#2 ! \nps:0 | x\n"
        assert main.main(["logs", JOB, "ps", "-f"]) == 0
        assert capfd.readouterr().out == "ps:0 | x\n"

    @pytest.mark.parametrize(
        ("which", "tasks"),
        [
            (["worker"], ["worker:0", "worker:1"]),
            (["worker:1"], ["worker:1"]),
            (["worker:1", "ps", "ps:0"], ["ps:0", "worker:1"]),
        ],
    )
    def test_groups_and_tasks(self, which: list[str], tasks: list[str]) -> None:
        assert select_logs(FAILED, which).tasks == tasks

    def test_an_attempt_is_named_as_it_is_printed(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        restarted = task("worker", 0, TaskState.RUNNING, attempt=2)
        backend = install(status(JobState.RUNNING, restarted, task("ps", 0, TaskState.RUNNING)))
        backend.handle.lines = list(self.LINES)
        assert main.main(["logs", JOB, "worker:0#2"]) == 0
        assert capfd.readouterr().out == "worker:0#2 ! \n"
        assert main.main(["logs", JOB, "worker:0#1", "ps", "--tail", "5"]) == 0
        assert capfd.readouterr().out == "worker:0 | ünï\nps:0 | x\n"
        # The task as a whole includes its attempts.
        assert main.main(["logs", JOB, "worker:0#1", "worker"]) == 0
        assert capfd.readouterr().out == "worker:0 | ünï\nworker:0#2 ! \n"
        assert main.main(["logs", JOB, "worker:0#3"]) == 1
        err = capfd.readouterr().err
        assert f"worker:0 of job {JOB} has had no attempt 3" in err
        assert "its newest attempt is 2" in err
        assert main.main(["logs", JOB, "worker:0#x"]) == 1
        assert "has no task or group 'worker:0#x'" in capfd.readouterr().err

    def test_options_may_stand_between_them(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install(FAILED)
        assert main.main(["logs", JOB, "-f", "ps", "worker:0"]) == 0
        assert backend.handle.asked == ["ps:0", "worker:0"]

    @pytest.mark.parametrize("follow", [[], ["-f"]])
    def test_the_last_lines(
        self, follow: list[str], install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install(FAILED)
        texts = ("one", "two", "three")
        backend.handle.lines = [LogLine(TaskId("ps:0"), 1, "stdout", text) for text in texts]
        backend.handle.lines.append(LogLine(TaskId("worker:0"), 1, "stderr", "x"))
        assert main.main(["logs", JOB, "--tail", "2", *follow]) == 0
        assert capfd.readouterr().out == "ps:0 | two\nps:0 | three\nworker:0 ! x\n"
        assert main.main(["logs", JOB, "--tail", "0", *follow]) == 0
        assert capfd.readouterr().out == ""

    def test_a_last_line_that_has_grown_is_told_whole(
        self,
        install: Install,
        capfd: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        backend = install(FAILED)

        def lines(
            tasks: list[TaskId], *, follow: bool, notify: Notify = ignore_notice
        ) -> Iterator[LogLine]:
            texts = ("one", "50 % and more", "end") if follow else ("one", "50 %")
            return (LogLine(TaskId("ps:0"), 1, "stdout", text) for text in texts)

        monkeypatch.setattr(backend.handle, "logs", lines)
        assert main.main(["logs", JOB, "--tail", "1", "-f"]) == 0
        assert capfd.readouterr().out == "ps:0 | 50 %\nps:0 | 50 % and more\nps:0 | end\n"

    @pytest.mark.parametrize("tail", [[], ["--tail", "1"]])
    def test_what_cannot_be_read_is_said_once(
        self, tail: list[str], install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install(FAILED)
        backend.handle.tells = ["the log of ps:0 on n:1 cannot be read: it is dead"]
        assert main.main(["logs", JOB, *tail]) == 0
        said = capfd.readouterr()
        assert said.err == "ytf: the log of ps:0 on n:1 cannot be read: it is dead\n"
        assert said.out == ""

    def test_an_unknown_one(self, install: Install, capfd: pytest.CaptureFixture[str]) -> None:
        install(FAILED)
        assert main.main(["logs", JOB, "worker:9"]) == 1
        err = capfd.readouterr().err
        assert "no task or group 'worker:9'" in err
        assert "hint: did you mean 'worker:" in err
        assert main.main(["logs", JOB, "client"]) == 1
        assert "went to its terminal" in capfd.readouterr().err

    def test_colours_mark_task_and_stream(self) -> None:
        assert logs.render(self.LINES[1], 36) == "\x1b[36mworker:0#2\x1b[0m \x1b[31m!\x1b[0m "


class TestSubmitFile:
    def test_paths_are_relative_to_the_file(self, install: Install, tmp_path: Path) -> None:
        folder = tmp_path / "jobs"
        folder.mkdir()
        (folder / "train.py").touch()
        (folder / "job.yaml").write_text(
            "name: from file\nscript: train.py\noutput: out\ncommand: go\n"
            "groups: {worker: {count: 1}}\n"
        )
        Path("ytf.toml").write_text('queue = "prod"\nname = "settings"\n')
        backend = install()
        assert main.main(["submit", str(folder / "job.yaml")]) == 0
        (plan,) = backend.submitted
        assert plan.uploads[0].source == str(folder / "train.py")
        assert plan.spec.output == str(folder / "out")
        assert (plan.spec.name, plan.spec.queue) == ("from file", "prod")
        assert main.main(["submit", str(folder / "job.yaml"), "-n", "mine", "-q", "q"]) == 0
        assert (backend.submitted[1].spec.name, backend.submitted[1].spec.queue) == ("mine", "q")

    def test_what_a_queue_is_told_may_be_settled_too(self, install: Install) -> None:
        Path("ytf.toml").write_text(
            'priority = 4\ntags = "a,b"\nnode_label = "gpu"\ntask_ports = "30000-30999"\n'
        )
        groups = "groups: {worker: {count: 1}}"
        Path("open.yaml").write_text(f"command: go\n{groups}\n")
        Path("own.yaml").write_text(f"command: go\n{groups}\ntags: [c]\npriority: 0\n")
        backend = install()
        for name in ("open.yaml", "own.yaml"):
            assert main.main(["submit", name]) == 0
        settled, own = (plan.spec for plan in backend.submitted)
        assert (settled.priority, settled.tags, settled.node_label) == (4, ("a", "b"), "gpu")
        assert (own.priority, own.tags, own.node_label) == (0, ("c",), "gpu")
        assert settled.task_ports == "30000-30999"

    def test_what_is_wrong_is_said_with_file_and_place(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install()
        Path("job.yaml").write_text("comand: go\ngroups: {worker: {count: 1}}\n")
        assert main.main(["submit", "job.yaml"]) == 2
        err = capfd.readouterr().err
        assert "job.yaml: " in err
        assert "did you mean 'command'?" in err

    def test_settled_resources_stand_in_for_what_the_file_leaves_open(
        self, install: Install
    ) -> None:
        Path("ytf.toml").write_text(
            'task_memory = "1 GiB,ps:2 GiB,worker[1]:3 GiB"\ntask_vcores = 3\n'
        )
        Path("job.json").write_text(
            json.dumps(
                {
                    "command": "go",
                    "output": "/o",
                    "groups": {
                        "ps": {"count": 1, "resources": {"vcores": 1}},
                        "worker": {"count": 2},
                        "chief": {"count": 1, "resources": {"memory": 77}},
                        "tensorboard": {"count": 1, "command": "mine"},
                    },
                }
            )
        )
        backend = install()
        assert main.main(["submit", "job.json"]) == 0
        groups = backend.submitted[0].spec.groups
        assert groups["ps"].resources == Resources(memory=2048, vcores=1)
        assert groups["worker"].resources == Resources(memory=1024, vcores=3)
        assert groups["worker"].overrides == {1: Resources(memory=3072, vcores=3)}
        assert groups["chief"].resources == Resources(memory=77, vcores=3)
        assert groups["tensorboard"].resources == Resources()

    @pytest.mark.parametrize(
        "groups", [[1], {"worker": 2}, {"worker": {"count": 1, "resources": 3}}, {"1": {}}]
    )
    def test_settings_do_not_hide_what_is_wrong(
        self, groups: object, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install()
        Path("ytf.toml").write_text("task_vcores = 3\n")
        Path("job.yaml").write_text(json.dumps({"command": "go", "groups": groups}))
        assert main.main(["submit", "job.yaml"]) == 2
        assert "job.yaml: groups" in capfd.readouterr().err

    @pytest.mark.parametrize(("name", "text"), [("j.yaml", "a: [1"), ("j.json", "{,}")])
    def test_what_is_no_yaml_or_json(
        self, name: str, text: str, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install()
        Path(name).write_text(text)
        assert main.main(["submit", name]) == 2
        assert f"ytf: error: {name}: line " in capfd.readouterr().err


def test_schema(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["schema"]) == 0
    assert json.loads(capfd.readouterr().out)["title"] == "ytf job"


def test_gc(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    backend = install()
    assert main.main(["gc"]) == 0
    assert backend.collections == [(7 * 86400, False, False)]
    said = capfd.readouterr().err
    assert "ytf: there is nothing to remove\n" in said
    assert "records and logs stay for 7 days; --older-than 1d" in said
    assert main.main(["gc", "--older-than", "1h30m"]) == 0
    assert backend.collections[-1] == (5400, False, False)
    assert capfd.readouterr().err.endswith("ytf: there is nothing to remove\n")
    assert main.main(["gc", "--older-than", "soon"]) == 2
    assert "--older-than: 'soon' is not a time" in capfd.readouterr().err
    backend.removed_items = [
        RemovedItem(what="layer", where="hdfs://n/l", size=1_234_567),
        RemovedItem(what="record", where="hdfs://n/r", size=12),
    ]
    Path(os.environ["YTF_HOME"], "ytf.toml").write_text("history_days = 2\n")
    assert main.main(["gc", "--dryrun", "--verify"]) == 0
    assert backend.collections[-1] == (2 * 86400, True, True)
    told = capfd.readouterr()
    assert told.out == (
        "WHAT    SIZE    WHERE\nlayer   1.2 MB  hdfs://n/l\nrecord  12 B    hdfs://n/r\n"
    )
    assert told.err.endswith("ytf: would remove 2 things, 1.2 MB\n")
    Path(os.environ["YTF_HOME"], "ytf.toml").write_text('history_days = "some"\n')
    assert main.main(["gc"]) == 2
    assert "history_days (from " in capfd.readouterr().err


def test_rm(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    backend = install(FAILED)
    assert main.main(["rm", "local_2_b", JOB]) == 1
    said = capfd.readouterr().err
    assert "there is no job local_2_b" in said
    assert f"ytf: removed the record and logs of job {JOB} (1.2 kB)" in said
    assert backend.sweeps == 0, "a gc writes records of dead jobs"


def test_rm_refuses_a_job_that_runs(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(status(JobState.RUNNING))
    assert main.main(["rm", JOB]) == 1
    assert "has not ended" in capfd.readouterr().err


def test_our_own_bugs_ask_to_be_reported(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    monkeypatch.setattr(backend, "open", lambda job: 1 // 0)
    assert main.main(["status", JOB]) == 70
    err = capfd.readouterr().err
    assert "ZeroDivisionError" in err
    assert "please report it" in err


def test_every_command_has_help(capfd: pytest.CaptureFixture[str]) -> None:
    parser = main.parser()
    commands = [word for word in parser.words() if not word.startswith("-")]
    assert commands == [
        *("submit", "status", "top", "list", "logs", "kill", "rm", "spec", "events", "attach"),
        *("shell", "schema", "gc", "doctor", "cluster", "help", "completion"),
    ]
    for command in commands:
        with pytest.raises(SystemExit) as caught:
            main.parser().parse_args([command, "--help"])
        assert caught.value.code == 0
    assert capfd.readouterr().out.count("usage: ") == len(commands)


def test_a_parser_never_guesses() -> None:
    parser = Parser(prog="x")
    parser.add_argument("--queue")
    _, unknown = parser.parse_known_args(["--que", "1"])
    assert unknown == ["--que", "1"]
