"""Finds the framework of a program that names none: from its command and its script's imports.

It decides only what is certain, and says why. In this order:

1. A launcher in the command: ``torchrun`` or ``-m torch.distributed.run`` (``launch``),
   ``mpirun`` or ``mpiexec``.
2. The imports of the Python file that the command runs, if it is one that the job
   ships: the script, or one of ``files``. An import of horovod decides, as its programs
   import another framework, too. Otherwise exactly one of tensorflow, torch and jax must
   be imported.

Whatever else imports (a module of one's own, a shell script, a program that lies on
the nodes) is not looked at: then it is TensorFlow, or what ``--framework`` says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

import msgspec

from ytf.functions.source_imports import imported_packages
from ytf.specs.job import Framework

_WORD_BEGIN = r"(?:^|[\s;&|(/])"
_NAME_BEGIN = r"(?:^|[\s;&|(/=\"'])"
_NAME_END = r"(?![\w./-])"
_LAUNCHERS = (
    (
        re.compile(
            _WORD_BEGIN + r"(torchrun)(?=\s|$)|\s-m\s+(torch\.distributed\.(?:run|launch))(?=\s|$)"
        ),
        Framework.TORCHRUN,
    ),
    (re.compile(_WORD_BEGIN + r"(mpirun|mpiexec)(?=\s|$)"), Framework.MPI),
)
_IMPORTS = {
    "tensorflow": Framework.TENSORFLOW,
    "torch": Framework.PYTORCH,
    "jax": Framework.JAX,
}


class Finding(msgspec.Struct, frozen=True):
    """A framework, and by what it was found."""

    framework: Framework
    because: str


def find_framework(command: str, sources: Mapping[str, str]) -> Finding | None:
    """Return the framework of a command, None if it is not certain.

    ``sources`` are local files by the names that the command knows them by: a
    shipped file's name, and ``$DTF_TASK_SCRIPT`` for the script.
    """
    for launcher, framework in _LAUNCHERS:
        found = launcher.search(command)
        if found is not None:
            word = next(group for group in found.groups() if group)
            return Finding(framework, f"the command runs {word}")
    for name, path in sources.items():
        if re.search(_NAME_BEGIN + re.escape(name) + _NAME_END, command):
            return _by_imports(path)
    return None


def _by_imports(path: str) -> Finding | None:
    return framework_of_packages(imported_packages(path), f"{os.path.basename(path)} imports")


def framework_of_packages(packages: Collection[str], who: str) -> Finding | None:
    """Return the framework that a program with these imports uses, None if it is not certain.

    ``who`` begins the sentence that tells by which package it was found.
    """
    if "horovod" in packages:
        return Finding(Framework.HOROVOD, f"{who} horovod")
    known = [package for package in _IMPORTS if package in packages]
    if len(known) != 1:
        return None
    return Finding(_IMPORTS[known[0]], f"{who} {known[0]}")
