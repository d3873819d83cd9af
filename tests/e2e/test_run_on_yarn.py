"""tf-yarn's interface on jobs of this machine, with a TensorFlow that only tells what is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Ytf
from tests.functions.tensorflow_stub import STUB

TENSORFLOW = Path(__file__).parents[2] / ".venv-tf"
TENSORFLOW_215 = Path(__file__).parents[2] / ".venv-tf215"
EXAMPLE = """
import collections, logging, os, sys
import ytf
from ytf import Experiment, NodeLabel, TaskSpec, run_on_yarn, RunFailed, upload_env
import my_model

EvalSpec = collections.namedtuple("EvalSpec", "hooks")

def experiment_fn():
    import tensorflow as tf
    assert my_model.NAME == "linear" and os.environ["MODE"] == "fast"
    return Experiment(my_model.NAME, os.environ.get("SPEC", "fine"), EvalSpec(()))

logging.basicConfig(level=logging.INFO)
pyenv_zip_path, _ = upload_env()
specs = {
    "chief": TaskSpec(memory="512 MiB", vcores=1),
    "worker": TaskSpec(memory="512 MiB", vcores=1, instances=2),
    "ps": TaskSpec(memory=512, vcores=1),
    "evaluator": TaskSpec(memory=512, vcores=1, label=NodeLabel.CPU),
}
metrics = run_on_yarn(
    pyenv_zip_path,
    experiment_fn,
    task_specs=specs,
    files={"my_model.py": "shipped/my_model.py"},
    env={"MODE": "fast", "SEEN": os.environ["GATE"]},
    pre_script_hook="echo before > hooked",
    eval_monitor_log_thresholds={"last_training_step": (100, None)},
)
(evaluator,) = [t for t in ytf.job("@last").status().tasks if t.group == "evaluator"]
print(evaluator.usage.metrics["nb_eval_steps"], evaluator.usage.metrics["last_training_step"])
print(sorted(os.listdir(os.environ["GATE"])))
took = metrics.train_eval_time_per_node
print(sorted(f"{key.type}:{key.id}" for key in took if took[key] is not None))
print(metrics.total_training_duration is not None, metrics.total_eval_duration is not None)
specs.pop("evaluator")
try:
    run_on_yarn(
        experiment_fn,
        specs,
        env={"MODE": "fast", "SEEN": os.environ["GATE"], "SPEC": "broken"},
        files={"my_model.py": "shipped/my_model.py"},
        name="broken",
    )
except RunFailed as error:
    print(error.task.partition(":")[0], repr(error.__cause__))
"""


def test_a_program_of_tf_yarn_runs_with_another_import(ytf: Ytf) -> None:
    (ytf.work / "tensorflow.py").write_text(STUB)
    (ytf.work / "shipped").mkdir()
    for folder in (ytf.work, ytf.work / "shipped"):
        (folder / "my_model.py").write_text("NAME = 'linear'\n")
    (ytf.work / "example.py").write_text(EXAMPLE)
    done = ytf.run("python", "example.py", timeout_s=250)
    assert done.stdout.splitlines() == [
        "1.0 40.0",
        "['chief-0', 'evaluator-0', 'ps-0', 'worker-0', 'worker-1']",
        "['chief:0', 'evaluator:0', 'worker:0', 'worker:1']",
        "True True",
        "worker ArithmeticError('the loss is not a number')",
    ]
    assert "evaluator:0: awake ratio" in done.stderr
    assert "training step of the last checkpoint" not in done.stderr, "it is below its threshold"


KERAS = """
import sys
from ytf import KerasExperiment, TaskSpec, run_on_yarn

def experiment_fn():
    import numpy as np
    import tensorflow as tf

    def data():
        x = np.arange(96, dtype="float32").reshape(32, 3) / 96
        return tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(8)

    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    saving = tf.keras.callbacks.ModelCheckpoint(sys.argv[2] + "/model-{epoch}.keras")
    return KerasExperiment(
        model=model,
        model_dir=sys.argv[2],
        train_params={"epochs": 2, "verbose": 2, "callbacks": [saving]},
        input_data_fn=data,
        target_data_fn=None,
        validation_data_fn=data,
    )

metrics = run_on_yarn(sys.argv[1], experiment_fn, {"chief": TaskSpec("2 GiB", 2)})
print(metrics.total_training_duration is not None)
"""


@pytest.mark.tensorflow
def test_a_keras_experiment_trains_in_an_environment_without_ytf(ytf: Ytf) -> None:
    (ytf.work / "train.py").write_text(KERAS.replace("sys.argv[2]", repr(str(ytf.gate))))
    done = ytf.run("python", "train.py", str(TENSORFLOW), timeout_s=250)
    assert done.stdout == "True\n"
    assert sorted(each.name for each in ytf.gate.iterdir()) == ["model-1.keras", "model-2.keras"]


ESTIMATOR = """
import sys
import ytf
from ytf import Experiment, TaskSpec, run_on_yarn

def experiment_fn():
    import numpy as np
    import tensorflow as tf

    def wines(repeat):
        acidity = np.linspace(0, 1, 64, dtype="float32")
        examples = {"acidity": acidity}, (acidity > 0.5).astype("int64")
        return tf.data.Dataset.from_tensor_slices(examples).repeat(repeat).batch(16)

    estimator = tf.estimator.LinearClassifier(
        [tf.feature_column.numeric_column("acidity")],
        model_dir=sys.argv[2],
        config=tf.estimator.RunConfig(save_checkpoints_steps=20),
    )
    return Experiment(
        estimator,
        tf.estimator.TrainSpec(lambda: wines(None), max_steps=40),
        tf.estimator.EvalSpec(lambda: wines(1), steps=None, start_delay_secs=0, throttle_secs=1),
    )

groups = ("chief", "worker", "ps", "evaluator")
specs = {name: TaskSpec(memory="2 GiB", vcores=1) for name in groups}
metrics = run_on_yarn(sys.argv[1], experiment_fn, specs)
print(metrics.total_training_duration is not None, metrics.total_eval_duration is not None)
tasks = {each.group: each for each in ytf.job("@last").status().tasks}
figures = tasks["evaluator"].usage.metrics
print(figures["last_training_step"] >= 40, figures["nb_eval_steps"] >= 4)
print(", ".join(sorted(figures)))
"""


@pytest.mark.tensorflow
def test_an_estimator_trains_and_is_evaluated_with_the_last_tensorflow_that_has_them(
    ytf: Ytf,
) -> None:
    (ytf.work / "train.py").write_text(ESTIMATOR.replace("sys.argv[2]", repr(str(ytf.gate))))
    done = ytf.run("python", "train.py", str(TENSORFLOW_215), timeout_s=400)
    assert done.stdout.splitlines() == [
        "True True",
        "True True",
        "awake_time_ratio, eval_step_mean_duration, last_training_step, nb_eval_steps",
    ]
    assert (ytf.gate / "eval").is_dir(), "the evaluator's summaries"
