from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Install
from tests.client.fakes import JOB, status, task
from ytf.cli import submit
from ytf.client.plan import Plan
from ytf.specs.job import (
    Framework,
    JobSpec,
    MasterSpec,
    OnFailure,
    Placement,
    Resources,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.status import JobEvent, JobState, TaskState


def _submitted(install: Install, *words: str) -> Plan:
    backend = install()
    assert submit.main(list(words)) == 0
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
    )
    assert plan.spec.groups["ps"].resources == Resources(memory_mb=8192, vcores=1, gpus=0)
    out, err = capfd.readouterr()
    assert out == f"{JOB}\n"
    assert err == "ytf-submit: backend local (no Hadoop configuration found)\n"


def test_what_is_for_a_cluster_reaches_the_spec_too(install: Install) -> None:
    Path("ytf.toml").write_text('tags = "team"\nnode_label = "slow"\nacl_modify = "ops"\n')
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
    assert spec.master == MasterSpec(resources=Resources(memory_mb=1024, vcores=2), max_attempts=7)
    assert (spec.priority, spec.tags) == (3, ("a", "b"))
    assert (spec.acl_view, spec.acl_modify) == ("alice ops", "ops")
    assert any("passes over priority, tags" in note for note in plan.notes)


def test_what_one_machine_cannot_keep_is_refused(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = install()
    for option in (["--lifetime", "9"], ["--task_resources", "fpga=1"], ["--placement", "apart"]):
        assert submit.main(["-r", "worker:2", *option, "true"]) == 1
    err = capfd.readouterr().err
    assert "lifetime" in err
    assert "fpga (1)" in err
    assert "never to share a node" in err
    assert backend.submitted == []


def test_a_job_that_cannot_start_yet_says_why(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install(status(JobState.SUBMITTED, diagnostics="The queue is full."))
    assert submit.main(["-r", "worker:1", "true"]) == 0
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
    assert submit.main(["-r", "worker:1", "--wait", "true"]) == 0
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
        *("--untracked", "ps"),
        *("--backend", "local", AWKWARD),
    )
    assert plan.spec == JobSpec(
        groups={
            "ps": TaskGroupSpec(
                count=1,
                resources=Resources(memory_mb=1024, vcores=2),
                on_failure=OnFailure.IGNORE,
                tracked=False,
            ),
            "worker": TaskGroupSpec(
                count=3,
                resources=Resources(memory_mb=2048, vcores=4),
                overrides={1: Resources(memory_mb=2048, vcores=8)},
                on_failure=OnFailure.RESTART_TASK,
                max_restarts=7,
            ),
        },
        command=AWKWARD,
        name="n ü",
        queue="q",
        input="hdfs://in",
        output=str(work / "out ü"),
        script="my_train.py",
        files={"d": str(work / "data"), "a,b=c.txt": str(work / "a,b=c.txt")},
        env={"A": "b=c", "E": ""},
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
        assert plan.spec.groups["tensorboard"].resources == Resources(memory_mb=1024, vcores=1)
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
        assert plan.spec.groups["worker"].resources == Resources(memory_mb=2048, vcores=5)

    def test_a_general_option_replaces_them(self, install: Install) -> None:
        Path("ytf.toml").write_text('task_memory = "2 GiB"\n')
        plan = _submitted(install, "-r", "worker:1", "-m", "100", "true")
        assert plan.spec.groups["worker"].resources.memory_mb == 100

    def test_a_wrong_one_is_refused(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install()
        Path("ytf.toml").write_text('que = "prod"\n')
        assert submit.main(["-r", "worker:1", "true"]) == 2
        assert "hint: did you mean 'queue'?" in capfd.readouterr().err


class TestDryRun:
    def test_nothing_is_submitted(
        self, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        backend = install()
        assert submit.main(["-r", "worker:1", "-t", "-o", "/o", "--dryrun", "true"]) == 0
        out, _ = capfd.readouterr()
        assert out.startswith("job 'TensorFlow' for ")
        assert "exec tensorboard --logdir" in out
        assert backend.submitted == []

    def test_as_json(self, install: Install, capfd: pytest.CaptureFixture[str]) -> None:
        install()
        Path("s.py").touch()
        words = ["-r", "worker:1", "-s", "s.py", "--dryrun", "--json", AWKWARD]
        assert submit.main(words) == 0
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
        assert submit.main(self.WORDS) == 0
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
        assert submit.main(self.WORDS) == 0
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
            JobEvent(at=1.0, event="TaskStarted", task="worker:0", text="attempt 1"),
            JobEvent(at=2.0, event="TaskExited", task="worker:0", text="attempt 1 exited with 3"),
        ]
        assert submit.main(self.WORDS) == 0
        lines = capfd.readouterr().err.splitlines()
        assert "worker:0 PENDING after attempt 1 exited with 3" in lines
        assert "worker:0 ALLOCATED (attempt 2)" in lines

    @pytest.mark.parametrize("state", [JobState.FAILED, JobState.KILLED])
    def test_anything_else_is_1_with_the_diagnostics(
        self, state: JobState, install: Install, capfd: pytest.CaptureFixture[str]
    ) -> None:
        install(status(state, diagnostics="worker:0 broke on h\n  last words\n"))
        assert submit.main(self.WORDS) == 1
        out, err = capfd.readouterr()
        assert out == f"{JOB}\n"
        assert err.endswith(
            f"ytf-submit: job {JOB} ended {state.value}\nworker:0 broke on h\n  last words\n"
            f"hint: `ytf logs {JOB}` shows what the tasks wrote\n"
        )


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert submit.main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("ytf-submit ")
