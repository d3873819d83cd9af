"""Builds the program's Python environment on a node, with links into unpacked layers.

Imported only when there is something to build. The submitter has decided what
is linked (``ytf.packaging.environment_layers``); this module does not read the
layers, so that it takes a fraction of a second whatever the environment's size.
"""

from __future__ import annotations

import errno
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

_VERSION = 2
_ACTIVATE = """\
# Made by ytf. Programs of tasks have this environment already: this is for those that ask twice.
VIRTUAL_ENV=%s
export VIRTUAL_ENV
PATH="$VIRTUAL_ENV/bin:$PATH"
export PATH
unset PYTHONHOME
deactivate() { :; }
"""


class AssemblyError(Exception):
    """The environment cannot be built; the message says why."""


def assemble(manifest: str, layers: Sequence[str], target: str) -> Dict[str, str]:
    """Build the environment at ``target``; returns the variables with which programs find it.

    ``manifest`` is the file that the submitter made, ``layers`` says where each
    layer is unpacked, the interpreter's last. The target appears whole or not at all, so several
    starters may build it at once; one that exists is used as it is. The result
    is for ``program_env.activate``.
    """
    plan = _read(manifest)
    if len(layers) != plan["layers"]:
        raise AssemblyError(
            "the environment has %s layers, of which %d were given" % (plan["layers"], len(layers))
        )
    places = [_place(layer) for layer in layers]
    interpreter = os.path.join(places[-1], plan["executable"])
    if not os.path.isdir(target):
        _make(plan, places, interpreter, target)
    variables = {"PATH": os.path.join(target, "bin"), "VIRTUAL_ENV": target}
    if plan.get("base_programs"):
        variables["PATH"] += os.pathsep + os.path.dirname(interpreter)
    if plan["library_path"]:
        prefix = os.path.dirname(os.path.dirname(interpreter))
        variables["LD_LIBRARY_PATH"] = os.path.join(prefix, "lib")
    return variables


def _read(manifest: str) -> Dict[str, Any]:
    try:
        with open(manifest, encoding="utf-8") as file:
            plan = json.load(file)
    except (OSError, ValueError) as exc:
        raise AssemblyError("the environment's manifest cannot be read: %s" % exc) from exc
    if not isinstance(plan, dict) or plan.get("version") != _VERSION:
        raise AssemblyError("%s is not a manifest of this version of ytf" % manifest)
    return plan


def _place(layer: str) -> str:
    # Without the node's own link to its cache, which is one more step for each file.
    real = os.path.realpath(layer)
    if not os.path.isdir(real):
        raise AssemblyError("a layer of the environment is not unpacked at %s" % layer)
    return real


def _make(plan: Dict[str, Any], places: List[str], interpreter: str, target: str) -> None:
    making = "%s.%s.making" % (target, os.urandom(8).hex())
    try:
        os.mkdir(making)
        _link(plan["tree"], places, making, "")
        _python(plan["python"], interpreter, making)
        _activate(making, target)
    except OSError as exc:
        _remove(making)
        raise AssemblyError("the environment cannot be made at %s: %s" % (target, exc)) from exc
    try:
        os.rename(making, target)
    except OSError as exc:
        _remove(making)
        if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise AssemblyError("the environment cannot be put at %s: %s" % (target, exc)) from exc


def _link(tree: Dict[str, Any], places: List[str], folder: str, path: str) -> None:
    for name, below in tree.items():
        here = os.path.join(folder, name)
        there = os.path.join(path, name)
        if isinstance(below, dict):
            os.mkdir(here)
            _link(below, places, here, there)
        else:
            os.symlink(os.path.join(places[below], there), here)


def _python(version: str, interpreter: str, folder: str) -> None:
    """Link the interpreter by its usual names, and write the file that makes this a venv."""
    programs = os.path.join(folder, "bin")
    os.makedirs(programs, exist_ok=True)
    for name in ("python", "python3", "python" + version):
        os.symlink(interpreter, os.path.join(programs, name))
    with open(os.path.join(folder, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        file.write("home = %s\n" % os.path.dirname(interpreter))
        file.write("include-system-site-packages = false\nversion = %s\n" % version)


def _activate(folder: str, target: str) -> None:
    """Write ``bin/activate``, which names the directory where the environment will be."""
    quoted = "'%s'" % target.replace("'", "'\\''")
    place = os.path.join(folder, "bin", "activate")
    if os.path.lexists(place):
        os.unlink(place)  # A link into a layer, which other jobs use as well.
    with open(place, "w", encoding="utf-8") as file:
        file.write(_ACTIVATE % quoted)


def _remove(folder: str) -> None:
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(parent, name))
        for name in folders:
            place = os.path.join(parent, name)
            if os.path.islink(place):
                os.unlink(place)
            else:
                os.rmdir(place)
    if os.path.isdir(folder):
        os.rmdir(folder)
