"""What an experiment function returns, as tf-yarn's users know it (``run_on_yarn``).

Standard library only: tasks import it, in environments that need have nothing else of ytf.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

MODULE = "ytf_experiment_module"
"""The attribute of a function of :func:`get_safe_experiment_fn` that names the module it uses."""


class Experiment(NamedTuple):
    """An Estimator, and how it is trained and evaluated. TensorFlow has had none since 2.16."""

    estimator: Any
    train_spec: Any
    eval_spec: Any

    @property
    def config(self) -> Any:
        """The estimator's ``RunConfig``."""
        return self.estimator.config


class KerasExperiment(NamedTuple):
    """A compiled Keras model, the arguments of its ``fit``, and functions that make the data."""

    model: Any
    model_dir: str
    train_params: dict[str, Any]
    input_data_fn: Callable[[], Any] | None
    target_data_fn: Callable[[], Any] | None
    validation_data_fn: Callable[[], Any]


class DataLoaderArgs(NamedTuple):
    """Arguments of the ``DataLoader`` of a PytorchExperiment."""

    batch_size: int | None = 1
    num_workers: int = 0
    pin_memory: bool = False
    drop_last: bool = True
    """Whether a last batch that is not full is left out: one of another size than the others'
    can block tasks that wait for each other."""
    timeout: float = 0
    prefetch_factor: int = 2
    shuffle: bool = False
    persistent_workers: bool = False
    collate_fn: Callable[..., Any] | None = None


class DistributedDataParallelArgs(NamedTuple):
    """Arguments of PyTorch's ``DistributedDataParallel``."""

    broadcast_buffers: bool = True
    bucket_cap_mb: int = 25
    find_unused_parameters: bool = False
    gradient_as_bucket_view: bool = False


class PytorchExperiment(NamedTuple):
    """A PyTorch model, its data, and the function that trains it in each process.

    ``main_fn`` is called with the model (as ``DistributedDataParallel``), the data loader,
    the device (``cuda:0``, or ``cpu`` where there is no GPU), the rank, and a
    ``SummaryWriter``, or None where TensorBoard is not installed.
    """

    model: Any
    main_fn: Callable[..., None]
    train_dataset: Any
    dataloader_args: DataLoaderArgs = DataLoaderArgs()
    tensorboard_hdfs_dir: str | None = None
    ddp_args: DistributedDataParallelArgs | None = None


def get_safe_experiment_fn(full_fn_name: str, *args: object) -> Callable[[], Any]:
    """Return an experiment function that imports another one by its name where it runs.

    ``full_fn_name`` is ``package.module.function``; it is called with ``args``. The module
    is not imported here.
    """
    module_name, _, name = full_fn_name.rpartition(".")
    if not module_name:
        raise ValueError(f"expected the name of a module and a function, got {full_fn_name!r}")

    def safe_experiment_fn() -> Any:
        return getattr(importlib.import_module(module_name), name)(*args)

    setattr(safe_experiment_fn, MODULE, module_name)
    return safe_experiment_fn
