"""Reads which packages a Python file imports, without running it."""

from __future__ import annotations

import ast
import os
import warnings

LONGEST_SCRIPT = 4 * 1024 * 1024
"""Longer files are not read."""


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
