"""Keeps what our own processes do not need from being loaded.

For the commands and the master, where a tenth of a second counts; a program
that imports ytf as a library is left as it is.
"""

from __future__ import annotations

import collections.abc
import importlib
import sys
import typing
from types import ModuleType

_NAME = "typing_extensions"


def without_typing_extensions() -> None:
    """Stand in for ``typing_extensions``, whose import takes 60 ms of a processor.

    msgspec and hdfs_native take four names from it, which ``typing`` has, too.
    Whoever wants any other name gets the real module.
    """
    if sys.version_info < (3, 11) or _NAME in sys.modules:
        return
    stand_in = ModuleType(_NAME, "A part of typing_extensions; see ytf.lightness.")
    stand_in.__dict__.update(
        get_type_hints=typing.get_type_hints,
        Required=typing.Required,
        NotRequired=typing.NotRequired,
        # For annotations only, so before 3.12 any name will do.
        Buffer=getattr(collections.abc, "Buffer", collections.abc.Sequence),
        __getattr__=_from_the_real_one,
    )
    sys.modules[_NAME] = stand_in


def _from_the_real_one(name: str) -> object:
    # The machinery of imports looks for these on any module.
    if name.startswith("__"):
        raise AttributeError(name)
    if isinstance(getattr(sys.modules.get(_NAME), "__file__", None), str):
        return getattr(sys.modules[_NAME], name)
    del sys.modules[_NAME]
    return getattr(importlib.import_module(_NAME), name)
