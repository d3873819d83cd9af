"""What ytf itself runs on in a container, as layers: an interpreter, ytf, what it needs.

It is never on the PATH of the user's program. Nothing is put together for it:
the directories of its layers are searched one after the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

import ytf
from ytf.errors import SettingsError
from ytf.packaging.installation import Installation
from ytf.packaging.interpreter import Interpreter, interpreter
from ytf.packaging.layers import Content, Entry, LayerKind, content
from ytf.packaging.split import Part, grouped, recorded
from ytf.packaging.walking import walk

# The terminal's: no master or starter draws tables.
_CLIENT_ONLY = {"rich"}
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """ytf's runtime before it is packed. ``interpreter`` None: the nodes' own is used."""

    interpreter: Interpreter | None
    code: Content
    """ytf itself: what changes most often."""
    libraries: tuple[Content, ...]
    version: str
    packages: str
    """Where modules lie below the root of each layer but the interpreter's."""

    @property
    def contents(self) -> tuple[Content, ...]:
        """All its layers."""
        own = (self.code, *self.libraries)
        return own if self.interpreter is None else (self.interpreter.content, *own)


def runtime(found: Installation, *, with_interpreter: bool = True) -> Runtime:
    """The runtime that this very ytf, in this installation, makes for containers.

    Raises ``SettingsError`` if something that ytf needs is not installed.
    """
    parts = []
    for folder, name in _needed(found):
        entries = recorded(found, folder, name)
        parts.append(Part(name.removesuffix(".dist-info"), tuple(entries)))
    return Runtime(
        interpreter=interpreter(found) if with_interpreter else None,
        code=content(LayerKind.CODE, "ytf", _ytf(found), found.bytecode),
        libraries=tuple(grouped(parts, found.bytecode)),
        version=found.version,
        packages=found.packages,
    )


def _ytf(found: Installation) -> list[Entry]:
    # From where it was imported, be it installed or a checkout.
    folder = os.path.dirname(os.path.abspath(ytf.__file__))
    return walk(folder, f"{found.packages}/ytf")


def _needed(found: Installation) -> list[tuple[str, str]]:
    """The distributions that ytf asks for, and those they ask for: folder and name of each.

    Read from the metadata, without ``importlib.metadata``, whose import alone
    costs as much as everything else here.
    """
    installed: dict[str, tuple[str, str]] = {}
    for folder in found.site_folders:
        for name in os.listdir(folder):
            if name.endswith(".dist-info"):
                installed.setdefault(_normal(name.partition("-")[0]), (folder, name))
    if "ytf" not in installed:
        raise SettingsError(
            f"ytf is not installed in {found.prefix}, so what it needs there is not known",
            hint="install it: pip install ytf (or pip install -e . in a checkout)",
        )
    chosen: dict[str, tuple[str, str]] = {}
    waiting = ["ytf"]
    while waiting:
        for wanted, is_conditional in _requires(*installed[waiting.pop()]):
            if wanted in chosen or wanted in _CLIENT_ONLY:
                continue
            if wanted in installed:
                chosen[wanted] = installed[wanted]
                waiting.append(wanted)
            elif not is_conditional:
                raise SettingsError(
                    f"ytf needs {wanted}, which is not installed in {found.prefix}",
                    hint=f"pip install {wanted}",
                )
    return [chosen[name] for name in sorted(chosen)]


def _requires(folder: str, name: str) -> Iterator[tuple[str, bool]]:
    """What a distribution asks for, and whether only under a condition.

    Extras are somebody else's wish. Of the other conditions none is judged:
    what is installed was asked for.
    """
    text = (Path(folder) / name / "METADATA").read_text(encoding="utf-8", errors="replace")
    for line in text.partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        found = _REQUIREMENT.match(value.strip()) if key == "Requires-Dist" else None
        _, is_conditional, condition = value.partition(";")
        if found and "extra" not in condition:
            yield _normal(found[0]), bool(is_conditional)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
