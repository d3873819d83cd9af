"""Makes the directory with which a function travels to the tasks of a job.

::

    ytf_function/
        run_function.py     the program of the tasks: ``ytf.functions.shipped.run_function``
        function.json       the function's name, and the version of Python it is of
        function.pickle     the function and its arguments
        cloudpickle/        what has pickled them, and reads them
        code/               modules that are not installed in the tasks' environment
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import cloudpickle

from ytf.errors import SpecError
from ytf.functions.code_modules import TaskEnvironment, copy_modules, modules_to_ship
from ytf.functions.pickling import BIG, Call, describe_size, pickle_call
from ytf.functions.shipped import run_function
from ytf.specs.amounts import format_bytes

FOLDER = "ytf_function"
"""The name of the directory in the tasks' working directories."""
_PROGRAM = f"{FOLDER}/{os.path.basename(run_function.__file__)}"
COMMAND = f"exec python {_PROGRAM}"
"""The command of tasks that make the call, on an environment of the job."""
NODE_COMMAND = f"exec python3 {_PROGRAM}"
"""The same on the Python of the node, or of a docker image."""
RESULTS = run_function.RESULTS
"""The directory in which the tasks leave results."""


def write_payload(
    call: Call,
    folder: Path,
    environments: Iterable[TaskEnvironment],
    notify: Callable[[str], None],
) -> set[str]:
    """Write all that the tasks need to make the call; returns the packages that it uses.

    Raises ``SpecError`` for what cannot travel. ``notify`` is told of what is big.
    """
    if not callable(call.function):
        raise SpecError(
            f"expected a function, got a {type(call.function).__name__}",
            hint="ytf.run(function, workers=4, args=(…))",
        )
    environments = list(environments)
    for each in environments:
        each.check_version(call.name)
    pickled = folder / "function.pickle"
    with pickled.open("xb") as file:
        packages = pickle_call(call, file)
    told = describe_size(call, pickled.stat().st_size)
    if told is not None:
        notify(told)
    modules: dict[str, Path] = {}
    for each in environments:
        modules |= modules_to_ship(packages, each, call.name)
    size = copy_modules(modules, folder / "code")
    if modules:
        big = f" ({format_bytes(size)})" if size > BIG else ""
        notify(f"shipping what the tasks cannot import: {', '.join(sorted(modules))}{big}")
    about = {"name": call.name, "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    (folder / "function.json").write_text(json.dumps(about), encoding="utf-8")
    shutil.copy(run_function.__file__, folder)
    shutil.copytree(
        os.path.dirname(cloudpickle.__file__),
        folder / "cloudpickle",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return packages
