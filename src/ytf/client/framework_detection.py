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

import ast
import os
import re
import warnings
from collections.abc import Mapping

import msgspec

from ytf.specs.job import Framework

LONGEST_SCRIPT = 4 * 1024 * 1024
"""Longer files are not read."""

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
    found = imported_packages(path)
    if "horovod" in found:
        return Finding(Framework.HOROVOD, f"{os.path.basename(path)} imports horovod")
    known = [package for package in _IMPORTS if package in found]
    if len(known) != 1:
        return None
    return Finding(_IMPORTS[known[0]], f"{os.path.basename(path)} imports {known[0]}")


def imported_packages(path: str) -> set[str]:
    """Return the packages that a Python file imports anywhere; empty if it is not one."""
    if not os.path.isfile(path):
        return set()  # a pipe, for one, would wait for its writer
    try:
        with open(path, "rb") as file:
            source = file.read(LONGEST_SCRIPT + 1)
        if len(source) > LONGEST_SCRIPT:
            return set()
        with warnings.catch_warnings():
            # Those about the user's code are for its own run.
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found
