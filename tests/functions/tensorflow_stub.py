"""A module ``tensorflow`` for tests of experiments: it only tells which task called it."""

from __future__ import annotations

STUB = """
import json, os, time
from pathlib import Path
from types import SimpleNamespace
compat = SimpleNamespace(v1=SimpleNamespace(train=SimpleNamespace(get_global_step=int)))
class estimator:
    SessionRunHook, SessionRunArgs = object, int
    @staticmethod
    def train_and_evaluate(estimator, train_spec, eval_spec):
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        for hook in eval_spec.hooks:
            hook.before_run(None)
            hook.after_run(None, SimpleNamespace(results=40))
            hook.end(None)
        Path(os.environ["SEEN"], "%s-%d" % (task["type"], task["index"])).touch()
        if task["type"] == "ps":
            time.sleep(600)
        if train_spec == "broken" and task["type"] == "worker":
            raise ArithmeticError("the loss is not a number")
"""
