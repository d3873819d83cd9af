"""``YTF_HOME``: where ytf keeps things on the client's side, whatever the backend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ytf.errors import SettingsError


def home(environ: Mapping[str, str] | None = None) -> Path:
    """``YTF_HOME``, else ``~/.ytf``; always absolute."""
    given = (os.environ if environ is None else environ).get("YTF_HOME")
    if not given:
        return Path.home() / ".ytf"
    try:
        return Path(given).absolute()
    except FileNotFoundError as exc:
        raise SettingsError(
            f"YTF_HOME is {given!r}, relative to a working directory that does not exist",
            hint="set YTF_HOME to an absolute path, or cd to another directory",
        ) from exc
