"""tf-yarn's interface on jobs of this machine, with a TensorFlow that only tells what is called."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.harness import Ytf
from tests.functions.framework_stubs import TENSORFLOW

ROOT = Path(__file__).parents[2]
WITH_TENSORFLOW = ROOT / ".venv-tf"
WITH_TENSORFLOW_215 = ROOT / ".venv-tf215"
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
    (ytf.work / "tensorflow.py").write_text(TENSORFLOW)
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
import os, sys
from ytf import KerasExperiment, TaskSpec, run_on_yarn

def experiment_fn():
    import numpy as np
    import tensorflow as tf
    KERAS

    def data():
        x = np.arange(96, dtype="float32").reshape(32, 3) / 96
        return tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(8)

    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    name = os.environ["DTF_TASK_JOB_NAME"] + "-{epoch}.keras"
    saving = keras.callbacks.ModelCheckpoint(os.path.join(sys.argv[2], name))
    return KerasExperiment(
        model=model,
        model_dir=sys.argv[2],
        train_params={"epochs": 2, "verbose": 2, "callbacks": [saving]},
        input_data_fn=data,
        target_data_fn=None,
        validation_data_fn=data,
    )

specs = {"chief": TaskSpec("2 GiB", 1), "worker": TaskSpec("2 GiB", 1)}
metrics = run_on_yarn(sys.argv[1], experiment_fn, specs)
print(metrics.total_training_duration is not None)
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize("keras", ["from tensorflow import keras", "import tf_keras as keras"])
def test_a_keras_experiment_trains_in_an_environment_without_ytf(ytf: Ytf, keras: str) -> None:
    program = KERAS.replace("sys.argv[2]", repr(str(ytf.gate))).replace("KERAS", keras)
    (ytf.work / "train.py").write_text(program)
    done = ytf.run("python", "train.py", str(WITH_TENSORFLOW), timeout_s=250)
    assert done.stdout == "True\n"
    assert sorted(each.name for each in ytf.gate.iterdir()) == ["chief-1.keras", "chief-2.keras"]


WINES = """
def wines(repeat):
    import numpy as np
    import tensorflow as tf

    acidity = np.linspace(0, 1, 64, dtype="float32")
    examples = {"acidity": acidity}, (acidity > 0.5).astype("int64")
    return tf.data.Dataset.from_tensor_slices(examples).repeat(repeat).batch(16)

def for_training():
    return wines(None)

def for_evaluation():
    return wines(1)
"""
RESULTS = """
import ytf
print(metrics.total_training_duration is not None, metrics.total_eval_duration is not None)
tasks = {each.group: each for each in ytf.job("@last").status().tasks}
figures = tasks["evaluator"].usage.metrics
print(figures["last_training_step"] >= 40, figures["nb_eval_steps"] >= 4)
print(", ".join(sorted(figures)))
"""


@pytest.mark.tensorflow
def test_the_program_of_the_guide_trains_an_estimator_after_its_change(ytf: Ytf) -> None:
    page = (ROOT / "docs" / "from-tf-yarn.md").read_text(encoding="utf-8")
    (change,) = re.findall(r"^```diff\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    after = "".join(line[1:] for line in change.splitlines(True) if not line.startswith("-"))
    # The environment of the tests has no TensorFlow, and there is no HDFS here.
    after = after.replace("upload_env()", f"upload_env({str(WITH_TENSORFLOW_215)!r})")
    after = after.replace("hdfs:///models/wines", str(ytf.gate))
    (ytf.work / "wines.py").write_text(WINES)
    (ytf.work / "train.py").write_text(after + RESULTS)
    done = ytf.run("python", "train.py", timeout_s=400)
    assert done.stdout.splitlines() == [
        "True True",
        "True True",
        "awake_time_ratio, eval_step_mean_duration, last_training_step, nb_eval_steps",
    ]
    assert (ytf.gate / "eval").is_dir(), "the evaluator's summaries"


PYTORCH = """
import sys
from ytf import DataLoaderArgs, PytorchExperiment, TaskSpec, run_on_yarn

def train(model, batches, device, rank, writer):
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(100):
        for x, y in batches:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    weight, bias = model.module.weight.item(), model.module.bias.item()
    print(f"{rank} {device} {len(batches)} {weight:.1f} {bias:.1f}", flush=True)

def experiment_fn():
    import torch

    torch.manual_seed(1)
    x = torch.rand(64, 1) * 2 - 1
    return PytorchExperiment(
        torch.nn.Linear(1, 1),
        train,
        torch.utils.data.TensorDataset(x, 3 * x + 2),
        DataLoaderArgs(batch_size=8),
    )

run_on_yarn(
    sys.argv[1],
    experiment_fn,
    {"worker": TaskSpec("1 GiB", 1, instances=2)},
    custom_task_module="tf_yarn.pytorch.tasks.worker",
)
import ytf
print("\\n".join(sorted(line.text for line in ytf.job("@last").logs() if " cpu " in line.text)))
"""


@pytest.mark.frameworks
def test_a_pytorch_experiment_trains_in_two_tasks(ytf: Ytf) -> None:
    venv = ytf.work / "with torch"
    options = ("--system-site-packages", "--without-pip")
    subprocess.run(["/usr/bin/python3", "-m", "venv", *options, venv], check=True)
    (ytf.work / "train.py").write_text(PYTORCH)
    done = ytf.run("python", "train.py", str(venv), timeout_s=250)
    assert done.stdout.splitlines() == ["0 cpu 4 3.0 2.0", "1 cpu 4 3.0 2.0"]
