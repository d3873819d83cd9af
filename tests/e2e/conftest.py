from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Ytf, listening_ports, ports_of
from ytf.testing.leaks import no_leaks
from ytf.testing.waiting import eventually


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ``YTF_HOME`` that does not exist yet, with a name that needs care."""
    return tmp_path / "ytf's hôme"


@pytest.fixture
def ytf(home: Path, tmp_path: Path) -> Iterator[Ytf]:
    """The commands with directories of their own; afterwards nothing of their jobs may be left."""
    work, gate = tmp_path / "work", tmp_path / "gate"
    work.mkdir()
    gate.mkdir()
    ytf = Ytf(home, work, gate)
    with no_leaks(home):
        yield ytf
        for started in ytf.started:
            if started.poll() is None:
                started.kill()
            started.communicate()
    ports = ports_of(list(home.glob("history/*/record.json")))
    eventually(
        lambda: not ports & listening_ports(),
        describe=lambda: f"the ports {ports & listening_ports()} are closed",
    )
