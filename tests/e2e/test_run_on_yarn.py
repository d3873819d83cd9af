"""tf-yarn's interface on jobs of this machine, with a TensorFlow that only tells what is called."""

from __future__ import annotations

from tests.e2e.harness import Ytf

TENSORFLOW = """
import json, os, time
from pathlib import Path
class estimator:
    @staticmethod
    def train_and_evaluate(estimator, train_spec, eval_spec):
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        Path(os.environ["SEEN"], "%s-%d" % (task["type"], task["index"])).touch()
        if task["type"] == "ps":
            time.sleep(600)
        if train_spec == "broken" and task["type"] == "worker":
            raise ArithmeticError("the loss is not a number")
"""
EXAMPLE = """
import os
from ytf import Experiment, NodeLabel, TaskSpec, run_on_yarn, RunFailed, upload_env
import my_model

def experiment_fn():
    import tensorflow as tf
    assert my_model.NAME == "linear" and os.environ["MODE"] == "fast"
    return Experiment(my_model.NAME, os.environ.get("SPEC", "fine"), None)

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
)
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
        "['chief-0', 'evaluator-0', 'ps-0', 'worker-0', 'worker-1']",
        "['chief:0', 'evaluator:0', 'worker:0', 'worker:1']",
        "True True",
        "worker ArithmeticError('the loss is not a number')",
    ]
