from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients keep the secrets of jobs in ``YTF_HOME``: not in that of whoever runs the tests."""
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
