"""From a name to a backend."""

from pathlib import Path

import pytest

from ytf.backends import get_backend
from ytf.errors import SettingsError


def test_local_is_there() -> None:
    assert get_backend("local").name == "local"


def test_yarn_needs_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="no Hadoop configuration"):
        get_backend("yarn")
    named = "<property><name>fs.defaultFS</name><value>{}</value></property>"
    site = f"<configuration>{named}</configuration>"
    (tmp_path / "core-site.xml").write_text(site.format("file:///"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(SettingsError, match=r"fs\.defaultFS is file:///"):
        get_backend("yarn")
    (tmp_path / "core-site.xml").write_text(site.format("hdfs://nowhere:1"))
    assert get_backend("yarn").name == "yarn"


def test_a_near_miss_gets_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="no backend 'locl'") as caught:
        get_backend("locl")
    assert caught.value.hint == "did you mean 'local'?"


def test_another_name_gets_the_list() -> None:
    with pytest.raises(SettingsError) as caught:
        get_backend("slurm")
    assert caught.value.hint == "use one of: local, yarn"
