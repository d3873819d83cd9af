"""Decides which modules travel with a function: those that its tasks could not import.

An environment brings what is installed in it. A module that is only found here, in the
working directory or through ``PYTHONPATH``, is shipped as its files, together with those
of its kind that it imports. It is then imported there as it is here, data files beside it
included.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ytf.errors import SpecError
from ytf.functions.source_imports import imported_packages
from ytf.packaging import installation

_NEVER = frozenset({"__main__", "__mp_main__", "cloudpickle"})
_SHIPPED_WITH_ENVIRONMENTS = ("ytf",)
"""Installed here, and shipped all the same where the tasks' environment has none: its users
import a few plain classes from it."""
_FIND = """\
import importlib.util, json, sys
def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
print(json.dumps([name for name in sys.argv[1:] if found(name)]))
"""
_ANSWER_S = 60.0


@dataclass(frozen=True)
class TaskEnvironment:
    """An environment of tasks: ``prefix`` is its directory here, None if it is the nodes' own."""

    prefix: str | None

    @property
    def is_ours(self) -> bool:
        """Whether it is the environment of this very process."""
        return self.prefix is not None and os.path.realpath(self.prefix) == os.path.realpath(
            sys.prefix
        )

    def check_version(self, name: str) -> None:
        """Raise ``SpecError`` if it has another Python than the one that ``name`` is of."""
        if self.prefix is None or self.is_ours:
            return
        theirs = installation.at(Path(self.prefix)).version
        ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if theirs != ours:
            raise SpecError(
                f"{name} is of Python {ours}, which runs here, and {self.prefix} has Python "
                f"{theirs}: a function does not run on another version",
                where="env",
                hint=f"use env='current', or an environment of Python {ours}",
            )

    def importable(self, names: Iterable[str]) -> set[str]:
        """Those of these modules that its own Python finds, without any directory of ours."""
        wanted = sorted(names)
        if self.prefix is None or not wanted:
            return set()
        python = os.path.join(self.prefix, "bin", "python")
        done = subprocess.run(
            [python, "-I", "-c", _FIND, *wanted],
            capture_output=True,
            text=True,
            cwd="/",
            timeout=_ANSWER_S,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise SpecError(f"{python} does not run: {last}", where="env")
        return set(json.loads(done.stdout))


def modules_to_ship(packages: set[str], environment: TaskEnvironment, name: str) -> dict[str, Path]:
    """The files and directories to ship for these packages, by their names where they arrive.

    Raises ``SpecError`` for a package that is installed here and not there, and for one
    whose files cannot be shipped. ``name`` is the function's.
    """
    found: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = {each for each in packages if each not in _NEVER and not _is_standard(each)}
    first = True
    while waiting:
        seen |= waiting
        places = {each: _places(each) for each in waiting}
        # What is installed here is there, too, if it is the same environment.
        asked = {
            each
            for each, paths in places.items()
            if paths and not (environment.is_ours and all(map(_is_installed, paths)))
        }
        there = environment.importable(asked)
        new: set[str] = set()
        for each in sorted(asked - there):
            paths = places[each]
            is_installed = all(map(_is_installed, paths))
            if is_installed and each not in _SHIPPED_WITH_ENVIRONMENTS:
                if environment.prefix is not None and first:
                    raise SpecError(
                        f"{name} uses {each}, which is installed here and not in "
                        f"{environment.prefix}",
                        where="env",
                        hint=f"install {each} there, or use env='current'",
                    )
                continue  # the node may have it, or nothing needs it after all
            for path in paths:
                found[path.name if path.is_file() else each] = path
                new |= _imports(path)
        waiting = {each for each in new if each not in _NEVER | seen and not _is_standard(each)}
        first = False
    return found


def copy_modules(modules: dict[str, Path], folder: Path) -> int:
    """Copy modules into a directory, without their bytecode; returns their size in bytes."""
    size = 0
    for name, source in modules.items():
        target = folder / name
        try:
            if source.is_dir():
                shutil.copytree(
                    source,
                    target,
                    ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".git"),
                    dirs_exist_ok=True,
                )
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        except (OSError, shutil.Error) as exc:
            raise SpecError(f"the module {name} cannot be shipped from {source}: {exc}") from exc
        files = [target] if target.is_file() else target.rglob("*")
        size += sum(each.stat().st_size for each in files if each.is_file())
    return size


def _is_standard(name: str) -> bool:
    return name in sys.stdlib_module_names or name in sys.builtin_module_names


def _places(name: str) -> list[Path]:
    """Where the files of a top-level module are; empty if there is none of this name here."""
    module = sys.modules.get(name)
    try:
        spec = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        paths = [Path(each) for each in spec.submodule_search_locations]
        return _on_disk(name, [each for each in paths if each.exists()] or paths)
    return _on_disk(name, [Path(spec.origin)]) if spec.has_location and spec.origin else []


def _on_disk(name: str, paths: list[Path]) -> list[Path]:
    for path in paths:
        if not path.exists():
            raise SpecError(
                f"the module {name} is in {path}, which is not a file of its own: it cannot be "
                "shipped",
                hint="install it into the environment, or unpack it",
            )
    return paths


def _is_installed(path: Path) -> bool:
    """Whether a path is in a directory of installed packages, of this environment or a base."""
    text = os.path.realpath(path)
    return any(text.startswith(folder + os.sep) for folder in _site_folders())


def _site_folders() -> set[str]:
    names = ("purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    folders |= {each for each in sys.path if os.path.basename(each).endswith("-packages")}
    return {os.path.realpath(folder) for folder in folders if folder}


def _imports(path: Path) -> set[str]:
    if path.is_file():
        return imported_packages(str(path))
    found: set[str] = set()
    for each in path.rglob("*.py"):
        found |= imported_packages(str(each))
    return found
