"""A framework is found only where command and script leave no doubt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ytf.client.framework_detection import find_framework
from ytf.functions.source_imports import LONGEST_SCRIPT, imported_packages
from ytf.specs.job import Framework


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        ("torchrun train.py", Framework.TORCHRUN),
        ("cd x && /opt/bin/torchrun --max_restarts 2 train.py", Framework.TORCHRUN),
        ("python3 -m torch.distributed.run train.py", Framework.TORCHRUN),
        ("python -u -m torch.distributed.launch train.py", Framework.TORCHRUN),
        ("mpirun -n 4 ./solve", Framework.MPI),
        ("/usr/bin/mpiexec ./solve", Framework.MPI),
        ("python torchrun.py", None),
        ("python my_mpirun", None),
        ("python train.py --launcher=torchrun", None),
        ("python -m torch.distributed.runner", None),
        ("echo hello", None),
    ],
)
def test_launchers_in_the_command(command: str, framework: Framework | None) -> None:
    found = find_framework(command, {})
    assert (found and found.framework) is framework


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("import torch", Framework.PYTORCH),
        ("import torch.nn as nn, os", Framework.PYTORCH),
        ("def main():\n    from torch import nn", Framework.PYTORCH),
        ("import jax.numpy as jnp", Framework.JAX),
        ("import tensorflow as tf", Framework.TENSORFLOW),
        ("import horovod.torch as hvd\nimport torch", Framework.HOROVOD),
        ("import horovod.tensorflow as hvd\nimport tensorflow", Framework.HOROVOD),
        # One of them may only read data, or write summaries.
        ("import torch\nimport tensorflow", None),
        ("import torch\nimport jax", None),
        ("import numpy", None),
        ("from . import torch", None),
        ("import torchvision", None),
        ("# import torch\nx = 'import torch'", None),
        ("import torch\nprint 'Python 2'", None),
        ("import torch\n\0", None),
        ("\udc80import torch", None),
    ],
)
def test_imports_of_the_script(tmp_path: Path, source: str, framework: Framework | None) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(source.encode("utf-8", "surrogateescape"))
    found = find_framework("python train.py --x 1", {"train.py": str(script)})
    assert (found and found.framework) is framework


@pytest.mark.parametrize(
    ("command", "is_run"),
    [
        ("python $DTF_TASK_SCRIPT", True),
        ('python "${DTF_TASK_SCRIPT}" -v', True),
        ("python ./train.py", True),
        ("sh -c 'python train.py'", True),
        ("python other/retrain.py", False),
        ("python train.pyc", False),
        ("python train.py.old", False),
    ],
)
def test_only_a_script_that_the_command_runs_counts(
    tmp_path: Path, command: str, is_run: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch")
    names = ("$DTF_TASK_SCRIPT", "${DTF_TASK_SCRIPT}", "train.py")
    found = find_framework(command, dict.fromkeys(names, str(script)))
    assert (found is not None) is is_run
    if found is not None:
        assert found.because == "train.py imports torch"


def test_what_is_no_readable_python_file_imports_nothing(tmp_path: Path) -> None:
    long = tmp_path / "long.py"
    long.write_text("import torch\n" + "#" * LONGEST_SCRIPT)
    nested = tmp_path / "nested.py"
    nested.write_text("import torch\n" + "(" * 5000 + ")" * 5000)
    for path in (str(long), str(nested), str(tmp_path), os.devnull, str(tmp_path / "missing")):
        assert imported_packages(path) == set()
