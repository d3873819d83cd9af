"""From a name to a backend."""

import subprocess
import sys
from pathlib import Path

import pytest

import ytf
from ytf.backends import backend
from ytf.errors import SettingsError


def test_local_is_there() -> None:
    assert backend("local").name == "local"


def test_yarn_needs_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="no Hadoop configuration"):
        backend("yarn")
    named = "<property><name>fs.defaultFS</name><value>{}</value></property>"
    site = f"<configuration>{named}</configuration>"
    (tmp_path / "core-site.xml").write_text(site.format("file:///"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(SettingsError, match=r"fs\.defaultFS is file:///"):
        backend("yarn")
    (tmp_path / "core-site.xml").write_text(site.format("hdfs://nowhere:1"))
    assert backend("yarn").name == "yarn"


def test_a_near_miss_gets_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="no backend 'locl'") as caught:
        backend("locl")
    assert caught.value.hint == "did you mean 'local'?"


def test_another_name_gets_the_list() -> None:
    with pytest.raises(SettingsError) as caught:
        backend("slurm")
    assert caught.value.hint == "use one of: local, yarn"


def test_the_node_loads_nothing_heavy() -> None:
    packages = Path(ytf.__file__).parents[1]
    heavy = ("msgspec", "asyncio", "subprocess", "pathlib", "shutil", "logging", "dataclasses")
    code = (
        f"import sys; sys.path.append({str(packages)!r}); import ytf.backends.local.node;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
