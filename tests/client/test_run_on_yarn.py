from __future__ import annotations

import sys
import tarfile
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ytf
from tests.client.fakes import FakeBackend, FakeHandle, status
from tests.packaging.venvs import Venv
from ytf.client.run_on_yarn import _track, run_on_yarn
from ytf.client.topologies import (
    ContainerKey,
    Metrics,
    NodeLabel,
    TaskSpec,
    ps_strategy_topology,
    single_server_topology,
)
from ytf.errors import RunFailed, SpecError
from ytf.functions.payload import COMMAND
from ytf.specs.job import Framework, JobSpec, OnFailure, Timeouts
from ytf.specs.status import JobState

CHIEF = {"chief": TaskSpec("1 GiB", 2)}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))


def _made() -> Any:
    def experiment_fn() -> object:
        return None

    return experiment_fn


experiment_fn = _made()
"""It travels as code: by its name, all tests would go with it."""


def submitted(*args: Any, **options: Any) -> JobSpec:
    """The spec that a call submits; the job fails at once."""
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED), status(JobState.FAILED)))
    backend.handle.results = lambda: (None, "/nowhere")  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(RunFailed):
        run_on_yarn(*args, backend=backend, **options)
    (plan,) = backend.submitted
    assert plan.keeps_results
    return plan.spec


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((sys.prefix, experiment_fn, CHIEF), {}),
        ((experiment_fn, CHIEF), {}),
        ((experiment_fn,), {"task_specs": CHIEF, "pyenv_zip_path": sys.prefix}),
        ((sys.prefix,), {"task_specs": CHIEF, "experiment_fn": experiment_fn}),
        (({ytf.NodeLabel.CPU: sys.prefix}, experiment_fn, CHIEF), {}),
    ],
)
def test_both_orders_of_arguments_are_taken(args: tuple[Any, ...], options: Any) -> None:
    spec = submitted(*args, **options)
    (group,) = spec.groups.values()
    assert (group.count, group.resources.memory_mb, group.resources.vcores) == (1, 1024, 2)
    assert (group.env or spec.env) == sys.prefix
    assert (spec.name, spec.queue, spec.timeouts.after_chief_s) == ("RunOnYarn", "default", None)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        ((experiment_fn, CHIEF), {"task_specs": CHIEF}),
        ((experiment_fn, CHIEF, 1), {}),
        ((sys.prefix, experiment_fn), {"pyenv_zip_path": sys.prefix}),
    ],
)
def test_wrong_arguments_are_type_errors(args: tuple[Any, ...], options: Any) -> None:
    with pytest.raises(TypeError):
        run_on_yarn(*args, **options)


def test_what_ytf_does_not_need_is_not_used() -> None:
    unused = {"skein_client": object(), "file_systems": ["hdfs://x"]}
    assert (
        submitted(experiment_fn, CHIEF, **unused).groups == submitted(experiment_fn, CHIEF).groups
    )


def test_keywords_reach_the_job(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    spec = submitted(
        experiment_fn,
        {
            "chief": TaskSpec(512, 1, label=ytf.NodeLabel.GPU),
            "worker": TaskSpec(512, 4, instances=3),
            "tensorboard": TaskSpec(512, 1, tb_model_dir="/m", tb_extra_args="--reload 1"),
        },
        files={"a.py": str(tmp_path / "a.py")},
        env={"MODE": "fast"},
        queue="ml",
        name="mine",
        nb_retries=2,
        pre_script_hook="module load hadoop",
        file_systems=["hdfs://preprod"],
        acls=SimpleNamespace(enable=True, view_users=["*"], modify_users=["bob"]),
        custom_task_module="tf_yarn.tensorflow.tasks.gloo_allred_task",
    )
    assert spec.groups["chief"].node_label == "gpu"
    assert spec.groups["worker"].count == 3
    assert spec.groups["worker"].on_failure is OnFailure.RESTART_JOB
    assert spec.groups["worker"].max_restarts == 2
    assert spec.groups["tensorboard"].task_env["TB_MODEL_DIR"] == "/m"
    assert spec.groups["tensorboard"].stage_out == ()
    assert spec.command == spec.groups["tensorboard"].command
    assert str(spec.command).startswith("module load hadoop\nexec python ytf_function/")
    assert spec.output == "/m"
    assert (spec.queue, spec.name, spec.task_env["MODE"]) == ("ml", "mine", "fast")
    assert (spec.acl_view, spec.acl_modify) == ("*", "bob")
    assert spec.framework_of("worker") is Framework.HOROVOD
    assert spec.files["a.py"] == str(tmp_path / "a.py")


@pytest.mark.parametrize(("given", "stays_s"), [({}, 0), (0, 0), (-1, 0), (90, 90)])
def test_tensorboard_stays_as_long_as_is_asked_for(given: Any, stays_s: float) -> None:
    options = {} if given == {} else {"tb_termination_timeout_seconds": given}
    board = TaskSpec(512, 1, tb_model_dir="/m", **options)
    spec = submitted(experiment_fn, {**CHIEF, "tensorboard": board})
    assert spec.timeouts == Timeouts(after_chief_s=None, tensorboard_s=stays_s)


def test_an_archive_of_cuda_is_unpacked_for_all_but_tensorboard() -> None:
    spec = submitted(
        experiment_fn,
        {**CHIEF, "tensorboard": TaskSpec(512, 1)},
        cuda_runtime_hdfs_path="hdfs://nn/libs/cuda 11.tar",
        env={"LD_LIBRARY_PATH": "cuda/lib64"},
    )
    assert [each.source for each in spec.stage_in] == ["hdfs://nn/libs/cuda 11.tar"]
    assert str(spec.command).startswith("mkdir -p cuda && tar -xf 'cuda 11.tar' -C cuda || exit\n")
    assert spec.groups["tensorboard"].command == COMMAND


def test_environments_are_archives_or_files_for_all_or_by_label(tmp_path: Path) -> None:
    venv = Venv(tmp_path / "venv")
    file = tmp_path / "env.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(venv.root, "venv")
    prefix, name = ytf.upload_env(str(file))
    assert name == "env.tar.gz"
    assert Path(prefix).parent == tmp_path / "home/environments"
    for given in (str(file), prefix, {NodeLabel.CPU: str(file), NodeLabel.GPU: "not asked for"}):
        assert submitted(given, _made(), CHIEF).groups["chief"].env == prefix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuda_runtime_hdfs_path": "hdfs:///c"}, "nothing would find the libraries of CUDA"),
        (
            {"eval_monitor_log_thresholds": {"nb_eval_step": (0, 1)}},
            "eval_monitor_log_thresholds: evaluators report no 'nb_eval_step'",
        ),
        ({"custom_task_module": "my.task"}, "custom_task_module: 'my.task' is none of tf-yarn's"),
        ({"pyenv_zip_path": "hdfs:///env.whl"}, "is of no kind that an environment is made from"),
        ({"pyenv_zip_path": {ytf.NodeLabel.GPU: "x"}}, "there is no environment for NodeLabel.CPU"),
        ({"task_specs": {"cheif": TaskSpec(1, 1)}}, "there is no task type 'cheif'"),
        ({"task_specs": {"chief": TaskSpec(1, 1, instances=2)}}, "there is one chief, not 2"),
        ({"task_specs": {"chief": {}}}, "expected a TaskSpec, got a dict"),
        ({"task_specs": {}}, "there are no tasks"),
        (
            {"task_specs": {"chief": TaskSpec(1, 1, tb_termination_timeout_seconds=9)}},
            "tb_termination_timeout_seconds is for TensorBoard, and has no effect on chief",
        ),
        ({"env": {"TF_CONFIG": "x"}}, "TF_CONFIG"),
    ],
)
def test_what_is_not_supported_is_refused(options: dict[str, Any], message: str) -> None:
    backend = FakeBackend(FakeHandle(status(JobState.SUBMITTED)))
    with pytest.raises(SpecError) as caught:
        run_on_yarn(experiment_fn, **{"task_specs": CHIEF, "backend": backend, **options})
    assert message in str(caught.value)
    assert backend.submitted == []


def test_topologies() -> None:
    assert list(single_server_topology()) == ["chief", "evaluator", "tensorboard"]
    found = ps_strategy_topology(nb_workers=3, nb_ps=2, memory="4 GiB", vcores=2)
    assert {name: spec.instances for name, spec in found.items()} == {
        "chief": 1, "worker": 3, "ps": 2, "evaluator": 1, "tensorboard": 1,
    }  # fmt: skip
    assert found["ps"].memory == 4096


def test_a_safe_experiment_function_imports_another_where_it_runs() -> None:
    function = ytf.get_safe_experiment_fn("os.path.join", "a", "b")
    assert function() == "a/b"
    with pytest.raises(ValueError, match="expected the name of a module and a function"):
        ytf.get_safe_experiment_fn("join")


def test_durations_are_metrics_in_mlflow() -> None:
    logged: list[object] = []
    run = SimpleNamespace(log_metrics=lambda *given: logged.extend(given))
    chief, other = ContainerKey("chief", 0), ContainerKey("ps", 1)
    metrics = Metrics(
        total_training_duration=timedelta(seconds=90),
        total_eval_duration=None,
        container_duration={chief: None, other: None},
        train_eval_time_per_node={chief: timedelta(seconds=1.5), other: None},
    )
    _track(SimpleNamespace(_run=run), metrics)  # type: ignore[arg-type]
    assert logged == [
        {"total_training_duration_s": 90.0},
        {"chief:0": {"train_eval_duration_s": 1.5}},
    ]
    _track(SimpleNamespace(_run=None), metrics)  # type: ignore[arg-type]
