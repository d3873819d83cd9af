"""The tasks of ``run_on_yarn`` and what it returns, in the words of tf-yarn's users."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import NamedTuple

from ytf.errors import SpecError, did_you_mean
from ytf.specs.amounts import parse_memory
from ytf.specs.job import TENSORBOARD

TASK_TYPES = ("chief", "worker", "ps", "evaluator", "tensorboard")
_MOST_MEMORY_MB = 48 * 1024
_MOST_VCORES = 48


class NodeLabel(Enum):
    """Which nodes a task may run on: any of the queue's, or those with the label ``gpu``."""

    CPU = ""
    GPU = "gpu"


class TaskSpec:
    """The tasks of one type: what each gets, and how many there are.

    ``memory`` is in MB, or text with a unit. The ``tb_…`` are for the type tensorboard: how many
    seconds it stays after all other tasks have ended, if these succeeded (by default it ends
    with them), the directory that it shows (by default that of the experiment), and further
    arguments.
    """

    def __init__(
        self,
        memory: int | str,
        vcores: int,
        instances: int = 1,
        nb_proc_per_worker: int = 1,
        label: NodeLabel = NodeLabel.CPU,
        tb_termination_timeout_seconds: int = -1,
        tb_model_dir: str | None = None,
        tb_extra_args: str | None = None,
    ) -> None:
        self.memory = parse_memory(memory, where="memory") if isinstance(memory, str) else memory
        self.vcores = vcores
        self.instances = instances
        self.nb_proc_per_worker = nb_proc_per_worker
        self.label = label
        self.tb_termination_timeout_seconds = tb_termination_timeout_seconds
        self.tb_model_dir = tb_model_dir
        self.tb_extra_args = tb_extra_args

    def __repr__(self) -> str:
        return f"<TaskSpec {self.instances} × {self.memory} MB, {self.vcores} vcores>"


class ContainerKey(NamedTuple):
    """One task: its type and index."""

    type: str
    id: int


class Metrics(NamedTuple):
    """How long a run took; None where that is not known.

    ``container_duration`` is from the start of a task's program to its end, in the time of
    the job's master; the others are what the tasks themselves measured of training and
    evaluation.
    """

    total_training_duration: timedelta | None
    total_eval_duration: timedelta | None
    container_duration: dict[ContainerKey, timedelta | None]
    train_eval_time_per_node: dict[ContainerKey, timedelta | None]


def single_server_topology(
    memory: int | str = _MOST_MEMORY_MB, vcores: int = _MOST_VCORES
) -> dict[str, TaskSpec]:
    """A chief, an evaluator and a TensorBoard."""
    return {name: TaskSpec(memory, vcores) for name in ("chief", "evaluator", "tensorboard")}


def ps_strategy_topology(
    nb_workers: int = 2,
    nb_ps: int = 1,
    memory: int | str = _MOST_MEMORY_MB,
    vcores: int = _MOST_VCORES,
) -> dict[str, TaskSpec]:
    """A chief, workers and parameter servers, an evaluator and a TensorBoard."""
    return {
        **single_server_topology(memory, vcores),
        "worker": TaskSpec(memory, vcores, instances=nb_workers),
        "ps": TaskSpec(memory, vcores, instances=nb_ps),
    }


def check_task_specs(task_specs: dict[str, TaskSpec]) -> None:
    """Raise ``SpecError`` for what ``run_on_yarn`` cannot run."""
    if not task_specs:
        raise SpecError("there are no tasks", where="task_specs")
    for name, spec in task_specs.items():
        where = f"task_specs.{name}"
        if name not in TASK_TYPES:
            raise SpecError(
                f"there is no task type {name!r}",
                where="task_specs",
                hint=did_you_mean(name, TASK_TYPES),
            )
        if not all(hasattr(spec, each) for each in ("memory", "vcores", "instances", "label")):
            raise SpecError(f"expected a TaskSpec, got a {type(spec).__name__}", where=where)
        if name in ("chief", "evaluator", "tensorboard") and spec.instances != 1:
            raise SpecError(f"there is one {name}, not {spec.instances}", where=where)
        if name != TENSORBOARD and spec.tb_termination_timeout_seconds > 0:
            raise SpecError(
                f"tb_termination_timeout_seconds is for TensorBoard, and has no effect on {name}",
                where=where,
                hint=f"give it to the TaskSpec of {TENSORBOARD!r}",
            )
