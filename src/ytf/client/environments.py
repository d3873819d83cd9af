"""Finds the environment that a user has named with ``env``, and makes it if it is a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ytf.errors import SpecError
from ytf.specs.job import is_url

if TYPE_CHECKING:
    from ytf.packaging.made_environments import EnvironmentRecipe

MakeEnvironment = Callable[["EnvironmentRecipe"], Path]
"""Returns the directory of an environment, which it makes if it does not exist."""

NODE = "node"
CURRENT = "current"
_KINDS = "a requirements.txt, pyproject.toml or uv.lock, a pex file, or a tar or zip of one"


def resolve_environment(
    asked: str,
    *,
    where: str,
    base: Path,
    environ: Mapping[str, str],
    make: MakeEnvironment | None = None,
) -> str:
    """Return the absolute path of an environment, or ``node``.

    A relative path is one of ``base``. ``make`` is called for a file; by default the
    environment is made without a word. Raises ``SpecError`` for what is no environment, and
    ``SettingsError`` if it cannot be made.
    """
    if asked == NODE:
        return asked
    if asked == CURRENT:
        active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX") or sys.prefix
        place = Path(active)
    elif is_url(asked):
        raise SpecError(
            f"{asked} is not on this machine",
            where=where,
            hint="copy it to this machine first, and name the copy",
        )
    else:
        place = base / asked
    if place.is_file():
        return str(_made(asked, Path(os.path.normpath(place)), where, make))
    if not os.access(place / "bin" / "python", os.X_OK):
        raise SpecError(
            f"{asked!r} is not an environment: there is no {place / 'bin' / 'python'}",
            where=where,
            hint=_hint(place),
        )
    return str(place)


def planned_environment(recipe: EnvironmentRecipe) -> Path:
    """Return where an environment will be, and make nothing: the ``make`` of a dry run."""
    return recipe.path


def _made(asked: str, file: Path, where: str, make: MakeEnvironment | None) -> Path:
    from ytf.packaging.made_environments import ensure_environment

    recipe = recipe_of(file)
    if recipe is None:
        raise SpecError(
            f"{asked!r} is not an environment, and of no kind that one is made from",
            where=where,
            hint=f"give node, current, the directory of a venv or conda environment, {_KINDS}",
        )
    return ensure_environment(recipe) if make is None else make(recipe)


def recipe_of(file: Path) -> EnvironmentRecipe | None:
    """Return how to make the environment that a file describes or holds; None for other files.

    Raises ``SettingsError`` if the file cannot be read.
    """
    # Few jobs name a file.
    from ytf.packaging import environment_archives as archives
    from ytf.packaging import environment_files as files

    if file.name == files.PROJECT_FILE:
        return files.project_recipe(file)
    if file.name == files.LOCK_FILE:
        return files.lock_recipe(file)
    if file.name.endswith(".txt"):
        return files.requirements_recipe(file)
    if file.name.endswith(archives.SUFFIXES):
        return archives.archive_recipe(file)
    return None


def _hint(place: Path) -> str:
    for name in ("uv.lock", "pyproject.toml", "requirements.txt"):
        if (place / name).is_file():
            return f"to make one from {name}, name the file: {place / name}"
    return (
        "give node, current, the directory of a venv or conda environment, or a file to make one "
        "from (docs/environments.md)"
    )
