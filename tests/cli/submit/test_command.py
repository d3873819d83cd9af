from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from ytf.backends.api import LogLine, Plan
from ytf.cli.submit import command
from ytf.specs.ids import TaskId
from ytf.specs.job import (
    Framework,
    JobSpec,
    MasterSpec,
    OnFailure,
    Placement,
    Resources,
    StageIn,
    StageOut,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.status import JobEvent, JobState, TaskState


def _submitted(install: Install, *words: str) -> Plan:
    backend = install()
    assert command.main(list(words)) == 0
    (plan,) = backend.submitted
    assert backend.sweeps == 1
    return plan


def test_the_defaults_are_the_seeds(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    plan = _submitted(install, "-r", "ps:1,worker:2", "python train.py")
    assert plan.spec == JobSpec(
        groups={"ps": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=2)},
        command="python train.py",
        name="TensorFlow",
        queue="default",
        framework=Framework.TENSORFLOW,
    )
    assert plan.spec.groups["ps"].resources == Resources(memory=8192, vcores=1, gpus=0)
    out, err = capfd.readouterr()
    assert out == f"{JOB}\n"
    assert err == "ytf-submit: backend local (no Hadoop configuration found)\n"
    # The second time it is no surprise any more.
    _submitted(install, "-r", "worker:1", "true")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
def test_logs_are_shown_while_it_is_waited_for(
    state: JobState, install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install(status(JobState.RUNNING), status(state))
    backend.handle.lines = [
        LogLine(TaskId("worker:0"), 1, "stdout", "step 1"),
        LogLine(TaskId("worker:1"), 2, "stderr", "oh"),
    ]
    words = ["-r", "worker:2", "--wait", "--logs", "true"]
    assert command.main(words) == (0 if state is JobState.SUCCEEDED else 1)
    out, err = capfd.readouterr()
    assert out == f"{JOB}\n"
    assert backend.handle.asked == ["worker:0", "worker:1"]
    lines = err.splitlines()
    assert "worker:0 | step 1" in lines
    assert "worker:1#2 ! oh" in lines
    # All of them come before the last word on the job.
    ends = [
        number for number, line in enumerate(lines) if line.startswith(f"ytf-submit: job {JOB}")
    ]
    assert max(map(lines.index, ["worker:0 | step 1", "worker:1#2 ! oh"])) < ends[0]


def test_logs_keep_their_colours_while_it_is_waited_for(
    install: Install, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ytf.cli.submit.wait_for_job.has_colours", lambda stream: True)
    backend = install(status(JobState.RUNNING), status(JobState.SUCCEEDED))
    backend.handle.lines = [LogLine(TaskId("worker:0"), 1, "stdout", "step 1")]
    assert command.main(["-r", "worker:1", "--wait", "--logs", "true"]) == 0
    assert "\x1b[36mworker:0\x1b[0m \x1b[36m|\x1b[0m step 1\n" in capfd.readouterr().err


def test_lists_may_have_spaces_and_times_units(install: Install) -> None:
    Path("a.txt").touch()
    Path("b.txt").touch()
    plan = _submitted(
        install,
        *("-r", "ps:2, worker:4, helper: 1", "-c", "2, ps: 1", "-m", "4 GiB, ps: 2 GiB"),
        *("--task_gpus", "worker : 0", "--task_resources", "worker: yarn.io/fpga = 0"),
        *("--untracked", "helper, ps", "--tags", "a, b", "--files", "a.txt, b=b.txt"),
        *("--on_failure", "worker: restart-task", "--max_restarts", "worker : 2"),
        *("--timeout", "1h30m"),
        "true",
    )
    groups = plan.spec.groups
    assert [(name, group.count) for name, group in groups.items()] == [
        ("ps", 2),
        ("worker", 4),
        ("helper", 1),
    ]
    assert groups["ps"].resources == Resources(memory=2048, vcores=1)
    assert groups["worker"].resources == Resources(memory=4096, vcores=2)
    assert (groups["worker"].on_failure, groups["worker"].max_restarts) == (
        OnFailure.RESTART_TASK,
        2,
    )
    assert (groups["helper"].tracked, groups["ps"].tracked) == (False, False)
    assert plan.spec.tags == ("a", "b")
    assert sorted(upload.name for upload in plan.uploads) == ["a.txt", "b"]
    assert plan.spec.timeouts == Timeouts(job_s=5400.0)


def test_what_is_for_a_cluster_reaches_the_spec_too(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YTF_TENSORBOARD", "/bin/echo")
    Path("ytf.toml").write_text('tags = "team"\nnode_label = "slow"\n')
    monkeypatch.setenv("YTF_ACL_MODIFY", "ops")
    plan = _submitted(
        install,
        *("-r", "ps:1,worker:2", "-t", "-o", "out"),
        *("--placement", "spread", "--placement", "ps:pack"),
        *("--node_label", "fast", "--node_label", "ps:"),
        *("--master_memory", "1g", "--master_vcores", "2", "--max_master_attempts", "7"),
        *("--priority", "3", "--tags", "a,b", "--tags", "b", "--acl_view", "alice ops"),
        "true",
    )
    spec = plan.spec
    assert (spec.placement, spec.node_label) == (Placement.SPREAD, "fast")
    assert (spec.groups["ps"].placement, spec.groups["ps"].node_label) == (Placement.PACK, "")
    assert (spec.groups["worker"].placement, spec.groups["worker"].node_label) == (None, None)
    assert spec.master == MasterSpec(resources=Resources(memory=1024, vcores=2), max_attempts=7)
    assert (spec.priority, spec.tags) == (3, ("a", "b"))
    assert (spec.acl_view, spec.acl_modify) == ("alice ops", "ops")
    assert any("ignores priority, tags" in note for note in plan.notes)


def test_ports_reach_the_spec(install: Install) -> None:
    Path("ytf.toml").write_text('task_ports = "30000-30099"\ncontrol_ports = "31000-31099"\n')
    spec = _submitted(
        install, "-r", "worker:1", "--task_ports", "32000-32099", "--expose_ports", "true"
    ).spec
    assert (spec.task_ports, spec.control_ports) == ("32000-32099", "31000-31099")
    assert spec.expose_ports


def test_what_one_machine_cannot_keep_is_refused(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    for option in (["--lifetime", "9"], ["--task_resources", "fpga=1"], ["--placement", "apart"]):
        assert command.main(["-r", "worker:2", *option, "true"]) == 1
    err = capfd.readouterr().err
    assert "lifetime" in err
    assert "fpga (1)" in err
    assert "never to share a node" in err
    assert backend.submitted == []


def test_a_job_that_cannot_start_yet_says_why(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install(status(JobState.SUBMITTED, diagnostics="The queue is full."))
    assert command.main(["-r", "worker:1", "true"]) == 0
    out, err = capfd.readouterr()
    assert out == f"{JOB}\n"
    assert err.endswith("ytf-submit: The queue is full.\n")


def test_a_wait_for_containers_is_told_while_it_lasts(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    pending = task("worker", 0, TaskState.PENDING)
    install(
        status(JobState.STARTING, pending, diagnostics="Waiting for 1 of 1."),
        status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING)),
        status(JobState.RUNNING, task("worker", 0, TaskState.SUCCEEDED), diagnostics="All well."),
        status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED), diagnostics="All well."),
    )
    assert command.main(["-r", "worker:1", "--wait", "true"]) == 0
    err = capfd.readouterr().err.splitlines()
    assert err.count("Waiting for 1 of 1.") == 1
    assert "All well." not in err


AWKWARD = "python 'it''s' \"$X\" `date` \\ ; ⟨ünïcödé⟩ 🦆\n  --second-line *"


def test_every_option_reaches_the_spec(install: Install, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "my train.py").touch()
    (work / "data").mkdir()
    (work / "a,b=c.txt").touch()
    plan = _submitted(
        install,
        *("--cluster_requirement", "ps:1,worker:3"),
        *("--task_vcores", "2", "-c", "worker:4,worker[1]:8"),
        *("--task_memory", "1024", "-m", "worker:2 GiB"),
        *("--input", "hdfs://in", "--output", "out ü"),
        *("--script", "my train.py", "--files", "d=data", "--files", "a,b=c.txt"),
        *("--queue", "q", "--name", "n ü"),
        *("--framework", "none", "--registry", "rest", "--env", "node"),
        *("--timeout", "1.5", "--on_failure", "restart-task", "--on_failure", "ps:ignore"),
        *("--max_restarts", "worker:7", "--task_env", "A=b=c", "--task_env", "E="),
        *("--untracked", "ps", "--stage_in", "data", "--stage_in", "hdfs://nn:1/a b:in"),
        *("--stage_in_sharded", "worker:hdfs:///x/*.h5:sh", "--stage_out", "ps:o:hdfs:///{job}"),
        *("--backend", "local", AWKWARD),
    )
    assert plan.spec == JobSpec(
        groups={
            "ps": TaskGroupSpec(
                count=1,
                resources=Resources(memory=1024, vcores=2),
                on_failure=OnFailure.IGNORE,
                tracked=False,
                stage_out=(StageOut(dir="o", to="hdfs:///{job}"),),
            ),
            "worker": TaskGroupSpec(
                count=3,
                resources=Resources(memory=2048, vcores=4),
                overrides={1: Resources(memory=2048, vcores=8)},
                on_failure=OnFailure.RESTART_TASK,
                max_restarts=7,
                stage_in=(StageIn(source="hdfs:///x/*.h5", to="sh", shard=True),),
            ),
        },
        stage_in=(
            StageIn(source=str(work / "data")),
            StageIn(source="hdfs://nn:1/a b", to="in"),
        ),
        command=AWKWARD,
        name="n ü",
        queue="q",
        input="hdfs://in",
        output=str(work / "out ü"),
        script="my_train.py",
        files={"d": str(work / "data"), "a,b=c.txt": str(work / "a,b=c.txt")},
        task_env={"A": "b=c", "E": ""},
        framework=Framework.NONE,
        timeouts=Timeouts(job_s=1.5),
    )
    assert [u.name for u in plan.uploads] == ["my train.py", "my_train.py", "d", "a,b=c.txt"]


def test_a_command_may_come_first_and_begin_with_a_dash(install: Install) -> None:
    assert _submitted(install, "a b", "-r", "worker:1").spec.command == "a b"
    assert _submitted(install, "-r", "worker:1", "--", "-x").spec.command == "-x"


@pytest.mark.parametrize(
    ("command", "noted"),
    [
        ("python $DTF_TASK_SCRIPT", False),
        ("python 'my train.py'", False),
        ("python my_train.py", False),
        ("python -c 'import my train'", False),
        ("python ", True),
    ],
)
def test_a_script_that_no_command_names_is_noted(
    command: str, noted: bool, install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("my train.py").touch()
    _submitted(install, "-r", "worker:1", "-s", "my train.py", command)
    assert ("no command names the script my train.py" in capfd.readouterr().err) is noted


def test_files_are_a_list_too(install: Install) -> None:
    for name in ("a", "b"):
        Path(name).touch()
    plan = _submitted(install, "-r", "worker:1", "--files", "a,c=b", "true")
    assert [u.name for u in plan.uploads] == ["a", "c"]


class TestTensorBoard:
    @pytest.fixture(autouse=True)
    def _own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("YTF_TENSORBOARD", "/bin/echo")

    def test_it_is_small_whatever_the_others_are(self, install: Install) -> None:
        plan = _submitted(
            install, "-r", "worker:1", "-m", "4096", "-c", "4", "-t", "-o", "/o", "true"
        )
        assert plan.spec.groups["tensorboard"].resources == Resources(memory=1024, vcores=1)
        assert (plan.spec.groups["tensorboard"].command or "").startswith("exec /bin/echo --logdir")

    def test_unless_it_is_named(self, install: Install) -> None:
        words = ["-r", "worker:1,tensorboard:1", "-m", "tensorboard:8192", "-o", "/o", "true"]
        plan = _submitted(install, *words)
        assert plan.spec.groups["tensorboard"].resources.memory_mb == 8192

    def test_a_policy_for_all_is_not_for_it(self, install: Install) -> None:
        words = ["-r", "worker:1", "-t", "-o", "/o", "--on_failure", "restart-job", "true"]
        plan = _submitted(install, *words)
        assert plan.spec.groups["tensorboard"].on_failure is None


class TestSettings:
    def test_they_stand_in_for_options(self, install: Install) -> None:
        Path("ytf.toml").write_text(
            'queue = "prod"\nname = "nightly"\ntask_memory = "2 GiB"\ntask_vcores = 3\n'
        )
        plan = _submitted(install, "-r", "worker:1", "-n", "mine", "-c", "worker:5", "true")
        assert (plan.spec.queue, plan.spec.name) == ("prod", "mine")
        assert plan.spec.groups["worker"].resources == Resources(memory=2048, vcores=5)

    def test_a_general_option_replaces_them(self, install: Install) -> None:
        Path("ytf.toml").write_text('task_memory = "2 GiB"\n')
        plan = _submitted(install, "-r", "worker:1", "-m", "100", "true")
        assert plan.spec.groups["worker"].resources.memory_mb == 100

    def test_a_wrong_one_is_refused(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install()
        Path("ytf.toml").write_text('que = "prod"\n')
        assert command.main(["-r", "worker:1", "true"]) == 2
        assert "hint: did you mean 'queue'?" in capfd.readouterr().err


class TestDryRun:
    def test_nothing_is_submitted(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install()
        assert command.main(["-r", "worker:1", "-t", "-o", "/o", "--dryrun", "true"]) == 0
        out, _ = capfd.readouterr()
        assert out.startswith("job 'TensorFlow' for ")
        assert "exec tensorboard --logdir" in out
        assert backend.submitted == []

    def test_as_json(self, install: Install, capfd: pytest.CaptureFixture[str]) -> None:
        install()
        Path("s.py").touch()
        words = ["-r", "worker:1", "-s", "s.py", "--dryrun", "--json", AWKWARD]
        assert command.main(words) == 0
        told = json.loads(capfd.readouterr().out)
        assert sorted(told) == ["backend", "notes", "spec", "uploads", "user"]
        assert told["spec"]["command"] == AWKWARD
        assert told["spec"]["groups"]["worker"]["resources"]["memory"] == 8192
        assert told["uploads"] == [{"source": str(Path("s.py").absolute()), "name": "s.py"}]


class TestWait:
    WORDS = ("-r", "worker:1", "--wait", "true")

    def test_success(self, install: Install, capfd: pytest.CaptureFixture[str]) -> None:
        install(
            status(JobState.SUBMITTED),
            status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING, host="h", port=1)),
            status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED)),
        )
        assert command.main(self.WORDS) == 0
        out, err = capfd.readouterr()
        assert out == f"{JOB}\n"
        assert err.splitlines()[1:] == [
            f"job {JOB}: SUBMITTED",
            "worker:0 RUNNING on h:1",
            f"job {JOB}: RUNNING",
            "worker:0 SUCCEEDED",
            f"job {JOB}: SUCCEEDED",
            f"ytf-submit: job {JOB} succeeded in 0:00:12",
            f"ytf-submit: `ytf logs {JOB}` shows what the tasks wrote",
        ]

    def test_a_failure_that_was_ignored_is_told(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        tasks = task("worker", 0, TaskState.SUCCEEDED), task("worker", 1, TaskState.FAILED)
        install(status(JobState.SUCCEEDED, *tasks, diagnostics="1 of 2; ignored: worker:1."))
        assert command.main(self.WORDS) == 0
        assert capfd.readouterr().err.endswith("\nytf-submit: 1 of 2; ignored: worker:1.\n")

    def test_a_restart_is_told_with_its_reason(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install(
            status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING, host="h")),
            status(JobState.RUNNING, task("worker", 0, TaskState.PENDING)),
            status(JobState.RUNNING, task("worker", 0, TaskState.ALLOCATED, attempt=2)),
            status(JobState.SUCCEEDED, task("worker", 0, TaskState.SUCCEEDED, attempt=2)),
        )
        backend.handle.happened = [
            JobEvent(at=1.0, event="task-started", task="worker:0", text="attempt 1"),
            JobEvent(at=2.0, event="task-exited", task="worker:0", text="worker:0 exited with 3"),
        ]
        assert command.main(self.WORDS) == 0
        lines = capfd.readouterr().err.splitlines()
        assert "worker:0 PENDING: worker:0 exited with 3" in lines
        assert "worker:0 ALLOCATED (attempt 2)" in lines

    @pytest.mark.parametrize("state", [JobState.FAILED, JobState.KILLED])
    def test_anything_else_is_1_with_the_diagnostics(
        self, state: JobState, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install(status(state, diagnostics="worker:0 broke on h\n  last words\n"))
        assert command.main(self.WORDS) == 1
        out, err = capfd.readouterr()
        assert out == f"{JOB}\n"
        assert err.endswith(
            f"ytf-submit: job {JOB} ended {state.value}\nworker:0 broke on h\n  last words\n"
            f"hint: `ytf logs {JOB}` shows what the tasks wrote\n"
        )


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("ytf-submit ")
