"""Programs in ``bin/``, made to run wherever they are put."""

from __future__ import annotations

import os
import re

from ytf.packaging.layers import Entry

_PYTHON = re.compile(rb"#!\s*(?P<python>/[^\n]*?/python[0-9.]*)(?P<rest>[ \t][^\n]*)?\n")
# What installers write when the path is too long for the kernel, or is to be relative.
_SHELL = re.compile(rb"#!/bin/sh\n'''exec' [^\n]*python[^\n]*\n' '''\n")
_HEAD = b"#!/bin/sh\n'''exec' \"$(dirname -- \"$0\")/python\"%s \"$0\" \"$@\"\n' '''\n"
_LONGEST = 1 << 20


def relocated(entry: Entry, scripts: str) -> Entry:
    """The same program, begun by the ``python`` beside it instead of the one in ``scripts``.

    The first lines are a command to the shell and a string to Python. Anything
    that is not a script of that Python stays as it is.
    """
    if entry.target or not entry.executable or entry.size > _LONGEST:
        return entry
    with open(entry.source, "rb") as file:
        if file.read(2) != b"#!":
            return entry
        text = b"#!" + file.read()
    found = _PYTHON.match(text)
    if found is not None and _is_same(os.path.dirname(os.fsdecode(found["python"])), scripts):
        changed = _HEAD % (found["rest"] or b"").rstrip() + text[found.end() :]
    elif (shell := _SHELL.match(text)) is not None:
        changed = _HEAD % b"" + text[shell.end() :]
    else:
        return entry
    return Entry(
        path=entry.path,
        data=changed,
        executable=True,
        size=len(changed),
        stamp=entry.stamp,
    )


def _is_same(folder: str, scripts: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(scripts)
