"""Tells what a file is from which a user wants an environment, and how to make it."""

from __future__ import annotations

from pathlib import Path

from ytf.packaging.environment_archives import SUFFIXES, archive_recipe
from ytf.packaging.environment_files import (
    LOCK_FILE,
    PROJECT_FILE,
    lock_recipe,
    project_recipe,
    requirements_recipe,
)
from ytf.packaging.made_environments import EnvironmentRecipe

KINDS = "a requirements.txt, pyproject.toml or uv.lock, a pex file, or a tar or zip of one"


def recipe_of(file: Path) -> EnvironmentRecipe | None:
    """Return how to make the environment that a file describes or holds; None for other files.

    Raises ``SettingsError`` if the file cannot be read.
    """
    if file.name == PROJECT_FILE:
        return project_recipe(file)
    if file.name == LOCK_FILE:
        return lock_recipe(file)
    if file.name.endswith(".txt"):
        return requirements_recipe(file)
    if file.name.endswith(SUFFIXES):
        return archive_recipe(file)
    return None
