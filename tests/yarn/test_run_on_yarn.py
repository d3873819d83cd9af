"""tf-yarn's interface on YARN, with a TensorFlow that only tells what is called."""

from __future__ import annotations

from tests.functions.tensorflow_stub import STUB
from tests.yarn.driver import Yarn

EXAMPLE = """
import collections, os
import ytf
from ytf import Experiment, RunFailed, TaskSpec, run_on_yarn

EvalSpec = collections.namedtuple("EvalSpec", "hooks")

def experiment_fn():
    import tensorflow
    if os.environ.get("MODE") == "broken":
        raise ArithmeticError("the loss is not a number")
    return Experiment("linear", "fine", EvalSpec(()))

specs = {name: TaskSpec(memory=300, vcores=1) for name in ("chief", "evaluator")}
options = {"env": {"SEEN": "."}, "backend": "yarn", "name": "from tf-yarn"}
metrics = run_on_yarn(experiment_fn, specs, **options)
print(sorted(key.type for key, took in metrics.container_duration.items() if took is not None))
job = ytf.job("@last")
(evaluator,) = [task for task in job.status().tasks if task.group == "evaluator"]
print(evaluator.usage.metrics["last_training_step"])
print(job.id)
try:
    run_on_yarn(experiment_fn, specs, **{**options, "env": {"MODE": "broken"}})
except RunFailed as error:
    print(repr(error.__cause__), bool(error.node))
    print(ytf.job("@last").id)
"""


def test_a_program_of_tf_yarn_runs_with_another_import(yarn: Yarn) -> None:
    (yarn.work / "tensorflow.py").write_text(STUB)
    (yarn.work / "example.py").write_text(EXAMPLE)
    done = yarn.run("python", "example.py", timeout_s=300)
    groups, step, first, raised, second = done.stdout.splitlines()
    assert groups == "['chief', 'evaluator']"
    assert step == "40.0"
    assert raised == "ArithmeticError('the loss is not a number') True"
    for job in (first, second):
        yarn.nothing_is_left(job)
