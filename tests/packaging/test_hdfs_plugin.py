"""The plugin for ``hdfs://`` is found beside ytf, and becomes one layer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.packaging.hdfs_plugin import find_plugin
from ytf.packaging.job_layers import JobLayers
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import LayerKind


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for libraries in a package that hides the installed one."""
    package = tmp_path / "with space" / "ytf_tensorflow_hdfs"
    (package / "tensorflow-plugins").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('nobody imports it')")
    monkeypatch.syspath_prepend(str(package.parent))
    return package / "tensorflow-plugins"


def test_a_package_without_the_library_is_none(plugins: Path) -> None:
    assert find_plugin() is None
    (plugins / "README").touch()
    assert find_plugin() is None


def test_the_layer_has_the_directory_that_tensorflow_loads(plugins: Path, tmp_path: Path) -> None:
    (plugins / "lib.so").write_bytes(b"\x7fELF")
    assert find_plugin() == str(plugins)
    layers = JobLayers(LayerCache(tmp_path / "cache"))
    layer = layers.add_hdfs_plugin(str(plugins))
    assert layers.layers == [layer]
    assert (layer.kind, layer.name) == (LayerKind.DISTRIBUTION, "ytf-tensorflow-hdfs")
    assert layers.archive(layer).path.exists()
