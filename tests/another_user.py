"""Makes files and directories that belong to another user, for tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ANOTHER = 54_321


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a path look as if it belonged to another user.

    root gives it away. Any other user becomes somebody else, to whom all files of the
    test are another user's.
    """
    if os.geteuid() == 0:
        os.chown(path, _ANOTHER, _ANOTHER, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: _ANOTHER)
