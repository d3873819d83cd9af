"""Modules ``tensorflow`` and ``torch`` for tests of experiments, which compute nothing."""

from __future__ import annotations

TENSORFLOW = """
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
"""It only tells which task called it."""

TORCH = """
import os, sys, types
def module(name, **has):
    made = sys.modules["torch" + name] = types.ModuleType("torch" + name)
    vars(made).update(has)
    return made
class SummaryWriter:
    def __init__(self, folder):
        os.makedirs(folder)
        self.folder = folder
        self.file = open(folder + "/events", "w")
        self.close = self.file.close
    def add_scalar(self, tag, value):
        self.file.write("%s=%s" % (tag, value))
    def add_hparams(self, values, metrics):
        below = SummaryWriter(self.folder + "/1")
        for tag, value in {**values, **metrics}.items():
            below.add_scalar(tag, value)
        below.close()
cuda = types.SimpleNamespace(device_count=int)
nn = types.SimpleNamespace(
    parallel=types.SimpleNamespace(DistributedDataParallel=lambda model, **options: model)
)
nothing = lambda *args: None
distributed = module(".distributed", init_process_group=nothing, destroy_process_group=nothing)
data = module(
    ".utils.data",
    IterableDataset=(),
    DistributedSampler=lambda dataset, shuffle: None,
    DataLoader=lambda dataset, **options: dataset,
)
utils = module(".utils", data=data)
module(".utils.tensorboard", SummaryWriter=SummaryWriter)
class Model:
    def to(self, device):
        return self
"""
"""It is a cluster of one, and its SummaryWriter writes text."""
