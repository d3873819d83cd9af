"""Reads the documentation of fields: the string below a field of a class.

Python keeps no such strings at run time, so they are read from the source.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import lru_cache


def field_docs(cls: type) -> dict[str, str]:
    """Field → its documentation in one line, for the fields of a class that have one.

    The fields may be those of a struct or the members of an enum.
    """
    (definition,) = (
        node
        for node in _module(cls.__module__).body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    )
    found: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        name = _field_name(field)
        if name and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[name] = plain_text(str(below.value.value))
    return found


def first_line(documented: object) -> str:
    """The first line of a docstring."""
    return plain_text((inspect.getdoc(documented) or "").partition("\n")[0])


def plain_text(docstring: str) -> str:
    """A docstring as one line, with single backquotes around code."""
    return " ".join(docstring.split()).replace("``", "`")


@lru_cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


def _field_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None
