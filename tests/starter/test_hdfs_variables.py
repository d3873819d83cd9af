"""Which variables let a program open ``hdfs://``, and when they are left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ytf.starter.hdfs_variables import conf_variables, find_tensorflow_io, plugin_variables


def make_conf(folder: Path) -> str:
    folder.mkdir()
    (folder / "core-site.xml").write_text("<configuration/>")
    return str(folder)


def test_the_nodes_own_configuration_goes_before_the_shipped_one(tmp_path: Path) -> None:
    own, shipped = make_conf(tmp_path / "own"), make_conf(tmp_path / "shipped")
    assert conf_variables({}, shipped) == {"HADOOP_CONF_DIR": shipped}
    assert conf_variables({b"HADOOP_CONF_DIR": os.fsencode(own)}, shipped) == {}
    # A directory that exists on other nodes only, or in no image.
    assert conf_variables({b"HADOOP_CONF_DIR": b"/not/there"}, shipped) == {
        "HADOOP_CONF_DIR": shipped
    }
    assert conf_variables({}, None) == {}
    assert conf_variables({}, str(tmp_path / "nothing")) == {}


def test_relative_directories_of_a_container_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_conf(tmp_path / "conf")
    assert conf_variables({}, "conf") == {"HADOOP_CONF_DIR": str(tmp_path / "conf")}
    assert plugin_variables({}, "plugin") == {
        "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(tmp_path / "plugin")
    }


def test_a_plugin_that_somebody_chose_stays() -> None:
    assert plugin_variables({b"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": b"/own"}, "/ours") == {}
    assert plugin_variables({b"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": b""}, "/ours") == {
        "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/ours"
    }
    assert plugin_variables({}, None) == {}


def make_python(prefix: Path, *distributions: str, kind: str = "site-packages") -> str:
    """An installation with these distributions; returns its directory of programs."""
    packages = prefix / "lib" / "python3.11" / kind
    for name in distributions:
        (packages / f"{name}.dist-info").mkdir(parents=True)
    program = prefix / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program.parent)


def test_tensorflow_io_is_found_by_its_metadata(tmp_path: Path) -> None:
    # The second one comes with TensorFlow 2.15 and knows nothing of HDFS.
    both = ("tensorflow_io-0.37.1", "tensorflow_io_gcs_filesystem-0.37.1")
    found = make_python(tmp_path / "a", *both)
    without = make_python(tmp_path / "b", both[1], "tensorflow_cpu-2.15.1")
    assert find_tensorflow_io(found) == str(tmp_path / "a/lib/python3.11/site-packages")
    assert find_tensorflow_io(without) is None
    assert find_tensorflow_io(f"{without}:{found}") is None, "the first Python counts"
    assert find_tensorflow_io(f"/not/there::{found}:{without}") is not None


def test_a_link_to_an_interpreter_elsewhere_is_followed(tmp_path: Path) -> None:
    real = make_python(tmp_path / "opt", "tensorflow_io-0.37.1", kind="dist-packages")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(Path(real, "python3"))
    assert find_tensorflow_io(str(programs)) == str(tmp_path / "opt/lib/python3.11/dist-packages")


def test_a_virtual_environment_hides_what_its_interpreter_has(tmp_path: Path) -> None:
    base = make_python(tmp_path / "base", "tensorflow_io-0.37.1")
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (programs / "python").symlink_to(Path(base, "python3"))
    assert find_tensorflow_io(str(programs)) is None


def test_no_python_at_all() -> None:
    assert find_tensorflow_io("") is None
