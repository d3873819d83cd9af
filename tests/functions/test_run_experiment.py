"""What a task does with each kind of experiment, with frameworks that tell how they are called."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.functions.framework_stubs import TORCH
from ytf.functions.experiments import Experiment, KerasExperiment, PytorchExperiment
from ytf.functions.shipped import report_metrics
from ytf.functions.shipped import run_experiment as program
from ytf.functions.shipped.run_experiment import EVALUATE, HOROVOD, TRAIN, run_experiment


class Recorder:
    """Notes each call, by name and keyword arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def takes(self, name: str, result: object = None) -> Any:
        def call(*args: object, **kwargs: object) -> object:
            self.calls.append((name, kwargs))
            return result

        return call

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


class EvalSpec(NamedTuple):
    """TensorFlow's own is a named tuple, too."""

    input_fn: int
    steps: int
    hooks: tuple[object, ...]
    name: str
    exporters: list[Any]
    start_delay_secs: float
    throttle_secs: float


class ModelCheckpoint:
    """A callback of Keras."""


@pytest.fixture
def tensorflow(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    gfile = SimpleNamespace(
        exists=lambda path: Path(path).exists(),
        listdir=lambda path: [each.name for each in Path(path).iterdir()],
    )
    model = SimpleNamespace(evaluate=recorder.takes("model.evaluate"))
    checkpoints = SimpleNamespace(all_model_checkpoint_paths=["/m/model.ckpt-5", "/m/model.ckpt-9"])
    found = SimpleNamespace(
        estimator=SimpleNamespace(
            train_and_evaluate=recorder.takes("train_and_evaluate"),
            SessionRunHook=object,
            SessionRunArgs=lambda step: step,
        ),
        compat=SimpleNamespace(v1=SimpleNamespace(train=SimpleNamespace(get_global_step=int))),
        io=SimpleNamespace(gfile=gfile),
        train=SimpleNamespace(get_checkpoint_state=lambda path: checkpoints),
        keras=SimpleNamespace(
            callbacks=SimpleNamespace(ModelCheckpoint=ModelCheckpoint, Callback=object),
            models=SimpleNamespace(load_model=recorder.takes("load_model", model)),
        ),
    )
    horovod = SimpleNamespace(init=recorder.takes("hvd.init"))
    monkeypatch.setitem(sys.modules, "tensorflow", found)
    monkeypatch.setitem(sys.modules, "horovod", SimpleNamespace(tensorflow=horovod))
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", horovod)
    monkeypatch.setattr(program, "_KERAS_PAUSE_S", 0.01)
    monkeypatch.setattr(program, "_NO_CHECKPOINT_S", 0.2)
    return found


@pytest.fixture
def estimator(recorder: Recorder) -> Experiment:
    made = SimpleNamespace(
        model_dir="/m",
        config=SimpleNamespace(replace=lambda **changes: changes),
        train=recorder.takes("estimator.train"),
        evaluate=recorder.takes("estimator.evaluate", {}),
    )
    exporter = SimpleNamespace(name="best", export=recorder.takes("export"))
    return Experiment(
        made,
        SimpleNamespace(input_fn=1, hooks=(), max_steps=9),
        EvalSpec(
            input_fn=2, steps=3, hooks=(), name="n", exporters=[exporter], start_delay_secs=0,
            throttle_secs=0.01,
        ),
    )  # fmt: skip


def _run(
    monkeypatch: pytest.MonkeyPatch, experiment: object, group: str, kind: str = TRAIN
) -> object:
    monkeypatch.setenv("DTF_TASK_JOB_NAME", group)
    return run_experiment(lambda: experiment, kind, "")


def test_an_estimator_is_trained_and_evaluated_as_tensorflow_does(
    tensorflow: Any, estimator: Experiment, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in ("chief", "worker", "ps", "evaluator"):
        span = _run(monkeypatch, estimator, group)
        assert isinstance(span, tuple)
        assert span[0] <= span[1]
    assert recorder.names == ["train_and_evaluate"] * 4


def test_a_stand_alone_evaluator_evaluates_each_checkpoint_up_to_the_last_step(
    tensorflow: Any, estimator: Experiment, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(monkeypatch, estimator, "chief", EVALUATE) is None
    assert recorder.calls == []
    monkeypatch.setenv("TF_CONFIG", "{}")
    _run(monkeypatch, estimator, "evaluator", EVALUATE)
    assert "TF_CONFIG" not in os.environ
    assert recorder.names == ["estimator.evaluate", "export"] * 2
    evaluated = [how["checkpoint_path"] for name, how in recorder.calls if "checkpoint_path" in how]
    assert evaluated == ["/m/model.ckpt-5", "/m/model.ckpt-9"]
    assert all(len(how["hooks"]) == 1 for _, how in recorder.calls if "hooks" in how)


def test_horovod_trains_in_chief_and_workers_and_only_a_chief_writes(
    tensorflow: Any, estimator: Experiment, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(monkeypatch, estimator, "chief", HOROVOD)
    assert estimator.estimator.model_dir == "/m"
    assert not hasattr(estimator.estimator, "_config")
    _run(monkeypatch, estimator, "worker", HOROVOD)
    assert estimator.estimator._config["save_checkpoints_steps"] is None
    assert recorder.names == ["hvd.init", "estimator.train"] * 2


def test_a_keras_model_is_fitted_and_what_it_saves_is_evaluated(
    tensorflow: Any, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.keras").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").touch()
    model = SimpleNamespace(fit=recorder.takes("fit"))
    callbacks = [ModelCheckpoint(), "other"]
    params = {"epochs": 2, "callbacks": callbacks}
    experiment = KerasExperiment(model, str(tmp_path), params, lambda: "x", None, lambda: "v")
    _run(monkeypatch, experiment, "chief")
    _run(monkeypatch, experiment, "worker")
    assert recorder.calls == [
        ("fit", {"epochs": 2, "callbacks": callbacks, "x": "x"}),
        ("fit", {"epochs": 2, "callbacks": ["other"], "x": "x"}),
    ]
    recorder.calls.clear()
    _run(monkeypatch, experiment, "evaluator")
    assert recorder.names == ["load_model", "model.evaluate"] * 2


@pytest.fixture
def reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the task's metrics."""
    monkeypatch.setenv("YTF_METRICS_FILE", str(tmp_path / "metrics"))
    monkeypatch.setattr(report_metrics, "_reported", {})
    return tmp_path / "metrics"


def test_the_hook_of_an_evaluator_reports_its_figures(tensorflow: Any, reported: Path) -> None:
    hook = program.estimator_hook(tensorflow, program.EvaluationMeter())
    for step in (7, 7, 9):
        hook.before_run(None)
        hook.after_run(None, SimpleNamespace(results=step))
    hook.end(None)
    found = json.loads(reported.read_text())
    assert (found["nb_eval_steps"], found["last_training_step"]) == (3, 9)
    assert 0 < found["eval_step_mean_duration"] < 60
    assert 0 < found["awake_time_ratio"] <= 1


def test_a_callback_does_so_for_keras(tensorflow: Any, reported: Path) -> None:
    callback = program.keras_callback(tensorflow.keras, program.EvaluationMeter())
    callback.model = SimpleNamespace(optimizer=SimpleNamespace(iterations=12))
    callback.on_test_end()
    assert not reported.exists(), "nothing was evaluated yet"
    for batch in range(2):
        callback.on_test_batch_begin(batch)
        callback.on_test_batch_end(batch)
    callback.model = SimpleNamespace()  # not compiled: the last step stays
    callback.on_test_end()
    found = json.loads(reported.read_text())
    assert (found["nb_eval_steps"], found["last_training_step"]) == (2, 12)


def test_what_is_no_experiment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="the experiment function returned a NoneType, not"):
        _run(monkeypatch, None, "chief")


def test_a_pytorch_experiment_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="needs the variables of PyTorch"):
        _run(monkeypatch, PytorchExperiment(None, print, []), "worker")


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PyTorch that computes nothing, in a working directory of its own."""
    (tmp_path / "torch.py").write_text(TORCH)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("missing", "folder", "message"),
    [
        ("hdfs_native", "hdfs://a/b", "the package hdfs-native"),
        ("torch.utils.tensorboard", "kept", "TensorBoard"),
    ],
)
def test_what_summaries_for_hdfs_need_is_said_before_the_training(
    missing: str, folder: str, message: str, torch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    importlib.import_module("torch")
    monkeypatch.setitem(sys.modules, missing, None)
    experiment = PytorchExperiment(None, print, [], tensorboard_hdfs_dir=folder)
    with pytest.raises(ValueError, match=f"tensorboard_hdfs_dir needs {message}"):
        _run(monkeypatch, experiment, "worker")


def test_summaries_of_each_process_are_copied(torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(model: object, data: object, device: str, rank: int, writer: Any) -> None:
        writer.add_scalar("rank", rank)
        writer.add_hparams({"rate": 0.1}, {})

    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        model = SimpleNamespace(to=lambda device: None)
        experiment = PytorchExperiment(model, train, [], tensorboard_hdfs_dir="kept")
        _run(monkeypatch, experiment, "worker")
    found = {str(each.parent): each.read_text() for each in Path("kept").rglob("events")}
    assert found == {
        "kept/worker0": "rank=0",
        "kept/worker0/1": "rate=0.1",
        "kept/worker1": "rank=1",
        "kept/worker1/1": "rate=0.1",
    }
