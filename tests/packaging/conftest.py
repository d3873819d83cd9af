"""Fixtures of a layer store on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.stored_layers import ME, MadeLayers, SharedFiles
from ytf.packaging.layer_store import (
    LayerStore,
)


@pytest.fixture
def made(tmp_path: Path) -> MadeLayers:
    return MadeLayers(tmp_path / "cache")


@pytest.fixture
def files() -> SharedFiles:
    return SharedFiles()


@pytest.fixture
def store(tmp_path: Path, files: SharedFiles) -> LayerStore:
    return LayerStore(files, f"{tmp_path}/store", ME)
