"""Finds the TensorBoard to run, or installs it into ``$YTF_HOME/environments``.

The environment has the packages of a list and our program, which runs TensorBoard. It is
named by the hash of both: a change makes another environment, and a running job keeps its own.

Every package, with all that it needs, is listed with the hashes of its files, and only
wheels are installed: whoever answers for an index cannot give other code, and nothing is
built with tools that are not listed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.packaging.installers import InstallProgress, install_steps, run_step
from ytf.packaging.made_environments import (
    EnvironmentRecipe,
    ensure_environment,
    ignore_progress,
)

TENSORBOARD_VARIABLE = "YTF_TENSORBOARD"
"""The variable that names a TensorBoard to use instead of ytf's own."""

_PROGRAM = Path(__file__).with_name("tensorboard_program.py")
_ABOUT = "TensorBoard"
_HINT = (
    f"set {TENSORBOARD_VARIABLE}=/path/to/tensorboard to use one that you have, or try again with "
    "a network and with uv or Python's venv (Debian: python3-venv) installed; if hashes do not "
    "match, the index or a proxy gives other files than those ytf was made with"
)


class TensorBoardCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The first words of TensorBoard's command line, and the environment that has them.

    If ``environment`` is None, the first word is a path or is found on the PATH.
    """

    argv: tuple[str, ...]
    environment: str | None = None


def find_tensorboard(on_progress: Callable[[str], None] = ignore_progress) -> TensorBoardCommand:
    """Return the command in ``YTF_TENSORBOARD``, else that of ytf's own environment.

    The first call makes the environment, which takes seconds and needs the
    network; later calls find it. ``on_progress`` is called with a text before
    anything slow. Raises ``SettingsError`` if the command cannot be run, or the
    environment cannot be made.
    """
    given = os.environ.get(TENSORBOARD_VARIABLE)
    if given:
        return TensorBoardCommand(argv=_given_command(given))
    requirements = Path(__file__).with_name("tensorboard.txt")
    path = ensure_environment(_recipe(requirements), on_progress)
    # Isolated: files shipped to the task must not replace its modules.
    return TensorBoardCommand(argv=("python", "-I", "-m", _PROGRAM.stem), environment=str(path))


def _given_command(given: str) -> tuple[str, ...]:
    try:
        words = shlex.split(given)
    except ValueError as exc:
        raise SettingsError(f"{TENSORBOARD_VARIABLE} is not a command: {exc}: {given}") from exc
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise SettingsError(
            f"{TENSORBOARD_VARIABLE} names no command that can be run: {given}",
            hint="give the path of a tensorboard, or unset it to have one installed",
        )
    # A relative path would be wrong in the working directory of a task.
    return (os.path.abspath(found), *words[1:])


def _recipe(requirements: Path) -> EnvironmentRecipe:
    """Return how to make the environment of a list of packages."""

    def make(path: Path, progress: InstallProgress) -> None:
        for step in install_steps(path, _pinned(requirements)):
            # Not in the user's directory, whose project settings (uv, pip) must not apply.
            run_step(step, about=_ABOUT, cwd=path.parent, progress=progress, hint=_HINT)
        major, minor = sys.version_info[:2]
        packages = path / "lib" / f"python{major}.{minor}" / "site-packages"
        packages.mkdir(parents=True, exist_ok=True)
        shutil.copy(_PROGRAM, packages)

    return EnvironmentRecipe(name=f"tensorboard-{_digest(requirements)}", about=_ABOUT, make=make)


def _digest(requirements: Path) -> str:
    """Return a hash of everything an environment depends on."""
    texts = (requirements.read_text(), _PROGRAM.read_text())
    parts = (*texts, sys.implementation.cache_tag, platform.machine())
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _pinned(requirements: Path) -> list[str]:
    """Return the options of ``pip install`` for a list with hashes; uv has the same ones."""
    return ["--require-hashes", "--only-binary", ":all:", "-r", str(requirements)]
