"""Finds the environment that a user has named with ``env``, and makes it from a file or a URL."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ytf.errors import SettingsError, SpecError
from ytf.hadoop.conf import Configuration
from ytf.specs.job import is_url

if TYPE_CHECKING:
    from ytf.packaging.made_environments import EnvironmentRecipe

MakeEnvironment = Callable[["EnvironmentRecipe"], Path]
"""Returns the directory of an environment, which it makes if it does not exist."""

NODE = "node"
CURRENT = "current"
_HDFS = ("hdfs://", "viewfs://")
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

    A relative path is one of ``base``. ``make`` is called for a file, on this machine or in
    HDFS; by default the environment is made without a word. Raises ``SpecError`` for what is
    no environment, ``SettingsError`` if it cannot be made, and ``UnreachableError`` or
    ``RefusedError`` if HDFS does not give the file.
    """
    if asked == NODE:
        return asked
    if asked == CURRENT:
        active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX") or sys.prefix
        place = Path(active)
    elif is_url(asked):
        return str(_made(_recipe_of_url(asked, where, environ), make))
    else:
        place = base / asked
    if place.is_file():
        return str(_made(_recipe_of_file(asked, Path(os.path.normpath(place)), where), make))
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


def _made(recipe: EnvironmentRecipe, make: MakeEnvironment | None) -> Path:
    from ytf.packaging.made_environments import ensure_environment

    return ensure_environment(recipe) if make is None else make(recipe)


def _recipe_of_file(asked: str, file: Path, where: str) -> EnvironmentRecipe:
    recipe = recipe_of(file)
    if recipe is None:
        raise SpecError(
            f"{asked!r} is not an environment, and of no kind that one is made from",
            where=where,
            hint=f"give node, current, the directory of a venv or conda environment, {_KINDS}",
        )
    return recipe


def _recipe_of_url(url: str, where: str, environ: Mapping[str, str]) -> EnvironmentRecipe:
    """Return how to make the environment in an archive in HDFS. The archive is only looked at."""
    from ytf.packaging.environment_archives import SUFFIXES

    if not url.startswith(_HDFS):
        raise SpecError(
            f"{url} is neither on this machine nor in HDFS",
            where=where,
            hint="copy it to this machine or to HDFS first, and name the copy",
        )
    if not url.rstrip("/").endswith(SUFFIXES):
        raise SpecError(
            f"{url} is of no kind that an environment is made from",
            where=where,
            hint="in HDFS it can be a pex file, or a tar or zip archive of a venv or conda "
            f"environment; its name ends with one of {' '.join(SUFFIXES)}",
        )
    # It loads hdfs-native.
    from ytf.packaging.environment_downloads import download_recipe

    try:
        return download_recipe(url, _hadoop_configuration(url, environ))
    except FileNotFoundError as exc:
        raise SpecError(f"there is no file {url}", where=where) from exc
    except IsADirectoryError as exc:
        raise SpecError(
            f"{url} is a directory",
            where=where,
            hint="in HDFS an environment is one file: a pex file, or a tar or zip archive",
        ) from exc
    except ValueError as exc:
        # The port is none, for example.
        raise SpecError(f"{url} is not a URL of a file in HDFS: {exc}", where=where) from exc


def _hadoop_configuration(url: str, environ: Mapping[str, str]) -> Configuration:
    place = Configuration.find(environ)
    if place is not None:
        return Configuration.load(place, environ=environ)
    authority = url.removeprefix("hdfs://").partition("/")[0]
    if url.startswith("hdfs://") and ":" in authority:
        # It says itself where the NameNode is.
        return Configuration.of({}, environ)
    raise SettingsError(
        f"{url} names no host and port of a NameNode, and no Hadoop configuration was found",
        hint="set HADOOP_CONF_DIR to the directory that contains core-site.xml, or write "
        "hdfs://host:port/…",
    )


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
