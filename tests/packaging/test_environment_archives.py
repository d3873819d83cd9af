"""Environments in archives are unpacked once, run where they are, and cannot write elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.venvs import PYTHON, Venv
from ytf.client.environments import recipe_of
from ytf.errors import SettingsError
from ytf.packaging import environment_archives, installers
from ytf.packaging.environment_archives import archive_recipe
from ytf.packaging.made_environments import DOWNLOADS, ensure_environment

PACKAGES = f"lib/{PYTHON}/site-packages"


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    return tmp_path / "home/environments"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    venv = Venv(tmp_path / "packed here")
    venv.install("tool", {"tool.py": b"X = 1\n", "bin/tool": venv.script("print(sys.prefix)")})
    venv.write("bin/system", b"#!/usr/bin/python3\n", executable=True)
    return venv


def tar(venv: Venv, file: Path) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        archive.add(venv.root, ".")
    return file


def tar_with_a_top_directory(venv: Venv, file: Path) -> Path:
    venv.write(f"{venv.root.name}/x", b"")
    with tarfile.open(file, "w:gz") as archive:
        archive.add(venv.root, venv.root.name)
    return file


def zip_with_links(venv: Venv, file: Path) -> Path:
    file = file.with_suffix(".zip")
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(venv.root.rglob("*")):
            name = str(path.relative_to(venv.root))
            info = zipfile.ZipInfo(name)
            if path.is_symlink():
                info.external_attr = 0o120777 << 16
                archive.writestr(info, os.readlink(path))
            elif path.is_file():
                info.external_attr = path.stat().st_mode << 16
                archive.writestr(info, path.read_bytes())
            else:
                archive.writestr(f"{name}/", b"")
    return file


@pytest.mark.parametrize("pack", [tar, tar_with_a_top_directory, zip_with_links])
def test_an_archive_of_a_venv(
    tmp_path: Path, venv: Venv, environments: Path, pack: Callable[[Venv, Path], Path]
) -> None:
    file = pack(venv, tmp_path / "env.tar.gz")
    venv.root.rename(tmp_path / "gone")
    said: list[str] = []
    path = ensure_environment(archive_recipe(file), said.append)
    assert path.parent == environments
    subprocess.run([str(path / "bin/python"), "-c", "import tool; tool.X"], check=True)
    done = subprocess.run([path / "bin/tool"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}\n"
    assert (path / "bin/system").read_bytes() == b"#!/usr/bin/python3\n"
    assert (path / "lib64").is_symlink()

    said.clear()
    copy = tmp_path / f"copy of {file.name}"
    copy.write_bytes(file.read_bytes())
    for again in (file, copy):
        assert ensure_environment(archive_recipe(again), said.append) == path
    assert said == []


def test_conda_packs_own_program_makes_it_fit(
    tmp_path: Path, venv: Venv, environments: Path
) -> None:
    venv.write("etc/where", b"/placeholder")
    unpack = (
        "import pathlib, sys\n(pathlib.Path(sys.prefix) / 'etc/where').write_text(sys.prefix)\n"
    )
    venv.write("bin/conda-unpack", f"#!/usr/bin/env python\n{unpack}".encode(), executable=True)
    path = ensure_environment(archive_recipe(tar(venv, tmp_path / "env.tgz")))
    assert (path / "etc/where").read_text() == str(path)


def test_a_conda_environment_of_another_machine(
    tmp_path: Path, venv: Venv, environments: Path
) -> None:
    (venv.root / "bin/python").unlink()
    venv.write("bin/python", b"\x7fELF of another machine", executable=True)
    venv.write("bin/conda-unpack", b"", executable=True)
    with pytest.raises(SettingsError, match=r"bin/python cannot be run: Exec format error"):
        ensure_environment(archive_recipe(tar(venv, tmp_path / "env.tgz")))
    assert list(environments.glob("[!.]*")) == []


def member(name: str, data: bytes = b"", link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    if link:
        info.type, info.linkname = tarfile.SYMTYPE, link
    return info, data


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside", b"x")],
        [member("a", link="/etc"), member("a/outside", b"x")],
        [member("a", link="../..")],
        [member("bin/python", link="{outside}"), member("bin/python", b"x")],
        [member("bin/python3", link="{outside}"), member("bin/python3/outside", b"x")],
    ],
    ids=["path", "absolute link", "relative link", "through python", "below python"],
)
def test_a_tar_does_not_write_elsewhere(
    tmp_path: Path, environments: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    file, outside = tmp_path / "bad.tar", tmp_path / "outside"
    with tarfile.open(file, "w") as archive:
        for info, data in members:
            info.linkname = info.linkname.format(outside=outside)
            archive.addfile(info, io.BytesIO(data))
    with pytest.raises(SettingsError, match="cannot be unpacked"):
        ensure_environment(archive_recipe(file))
    assert not outside.exists()
    assert list(environments.glob("[!.]*")) == []


@pytest.mark.parametrize(
    ("name", "mode", "data", "message"),
    [
        ("../outside", 0o100644, "x", "has a file outside of it"),
        ("/outside", 0o100644, "x", "has a file outside of it"),
        ("link", 0o120777, "../..", "has a link that leads out of it"),
        ("link", 0o120777, "/etc", "has a link that leads out of it"),
        ("a", 0o100644, "x", "cannot be unpacked"),
    ],
)
def test_a_zip_does_not_write_elsewhere(
    tmp_path: Path, environments: Path, name: str, mode: int, data: str, message: str
) -> None:
    file = tmp_path / "bad.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/b", b"")
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, data)
    with pytest.raises(SettingsError, match=message):
        ensure_environment(archive_recipe(file))
    assert not (tmp_path / "outside").exists()
    assert list(environments.glob("[!.]*")) == []


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_MOST_MEMBERS"])
@pytest.mark.parametrize("pack", [tar, zip_with_links])
def test_one_that_is_too_big_is_not_unpacked(
    tmp_path: Path,
    venv: Venv,
    environments: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    pack: Callable[[Venv, Path], Path],
) -> None:
    monkeypatch.setattr(environment_archives, limit, 3)
    with pytest.raises(SettingsError, match="is no environment: it has more than"):
        ensure_environment(archive_recipe(pack(venv, tmp_path / "env.tar.gz")))
    assert list(environments.glob("[!.]*")) == []


@pytest.mark.parametrize("pack", [tar, zip_with_links])
def test_how_far_it_is_is_said(
    tmp_path: Path,
    venv: Venv,
    environments: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[Venv, Path], Path],
) -> None:
    monkeypatch.setattr(installers, "_SILENCE_S", 0.0)
    said: list[str] = []
    ensure_environment(archive_recipe(pack(venv, tmp_path / "env.tar.gz")), said.append)
    assert any(re.fullmatch(r"still at it \(0 s\): \d+ (of \d+ )?files", text) for text in said)


@pytest.mark.parametrize("damaged", [b"PK\x01\x02", b"PK\x03\x04"])
def test_a_damaged_zip(tmp_path: Path, environments: Path, damaged: bytes) -> None:
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bin/python", "x" * 1000)
    # Its list of files, whose place is still told, or the file itself.
    file.write_bytes(file.read_bytes().replace(damaged, b"XXXX"))
    assert zipfile.is_zipfile(file)
    with pytest.raises(SettingsError, match="cannot be unpacked"):
        ensure_environment(archive_recipe(file))


def test_a_file_that_is_no_archive_or_no_environment(tmp_path: Path, environments: Path) -> None:
    for name in ("x.tar.gz", "x.zip"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(SettingsError, match="cannot be unpacked"):
            ensure_environment(archive_recipe(tmp_path / name))
    (tmp_path / "x.pex").write_bytes(b"nothing of the kind")
    with pytest.raises(SettingsError, match="is not a pex file"):
        ensure_environment(archive_recipe(tmp_path / "x.pex"))
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        archive_recipe(tmp_path / "gone.tar")
    with tarfile.open(tmp_path / "data.tar", "w") as archive:
        archive.addfile(*_entry("data/x"))
    with pytest.raises(SettingsError, match="it has no bin/python") as caught:
        ensure_environment(archive_recipe(tmp_path / "data.tar"))
    assert "conda-pack" in (caught.value.hint or "")


def _entry(name: str) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return tarfile.TarInfo(name), io.BytesIO()


def test_a_venv_whose_python_is_not_here(tmp_path: Path, venv: Venv, environments: Path) -> None:
    for name in ("python", "python3", PYTHON):
        (venv.root / "bin" / name).unlink()
        (venv.root / "bin" / name).symlink_to(f"/no/such/{name}")
    with pytest.raises(SettingsError, match="does not run on this machine") as caught:
        ensure_environment(archive_recipe(tar(venv, tmp_path / "env.tar.gz")))
    assert "conda-pack's archives bring their own" in (caught.value.hint or "")


PEX_MAIN = f"""
import os, sys
assert os.environ["PEX_TOOLS"] == "1" and "PEX_MODULE" not in os.environ
assert sys.argv[1] == "venv"
os.makedirs(sys.argv[2] + "/bin")
os.symlink({sys.executable!r}, sys.argv[2] + "/bin/python")
"""


def pex(file: Path, *, has_tools: bool) -> Path:
    """A file in the form of pex, with a program in place of pex's own."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("PEX-INFO", "{}")
        archive.writestr("__main__.py", PEX_MAIN)
        if has_tools:
            archive.writestr(".bootstrap/pex/tools/main.py", "")
    return file


@pytest.mark.parametrize("name", ["x.pex", "x.zip"])
def test_a_pex_file_makes_its_own_venv(
    tmp_path: Path, environments: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PEX_MODULE", "the users own")
    path = ensure_environment(archive_recipe(pex(tmp_path / name, has_tools=True)))
    assert (path / "bin/python").exists()


@pytest.mark.parametrize("layout", ["loose", "packed"])
@pytest.mark.parametrize("has_tools", [True, False])
def test_a_large_pex_is_a_directory_in_a_zip_archive(
    tmp_path: Path,
    environments: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    has_tools: bool,
) -> None:
    """As ``cluster_pack.upload_env(allow_large_pex=True)`` makes it."""
    own = io.BytesIO()
    with zipfile.ZipFile(own, "w") as archive:
        archive.writestr("pex/tools/main.py" if has_tools else "pex/pex.py", "")
    file = tmp_path / "x.pex.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("PEX-INFO", "{}")
        archive.writestr("__main__.py", f"{PEX_MAIN}\nassert os.path.isdir(sys.argv[0])\n")
        if layout == "packed":
            archive.writestr(".bootstrap", own.getvalue())
        else:
            for name in zipfile.ZipFile(own).namelist():
                archive.writestr(f".bootstrap/{name}", "")
    if has_tools:
        path = ensure_environment(archive_recipe(file))
        assert (path / "bin/python").exists()
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SettingsError, match=r"x\.pex\.zip was built without pex's tools"):
            ensure_environment(archive_recipe(file))
    assert list((environments / DOWNLOADS).iterdir()) == []


def test_a_pex_file_without_tools(
    tmp_path: Path, environments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = pex(tmp_path / "x.pex", has_tools=False)
    with pytest.raises(SettingsError, match="was built without pex's tools") as caught:
        ensure_environment(archive_recipe(file))
    assert "--include-tools" in (caught.value.hint or "")
    # pex-tools, where it is installed, does it.
    tools = tmp_path / "pex-tools"
    tools.write_text(f"#!/bin/sh\nshift; PEX_TOOLS=1 {sys.executable} '{file}' \"$@\"\n")
    tools.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert (ensure_environment(archive_recipe(file)) / "bin/python").exists()


def test_other_files_are_of_no_kind(tmp_path: Path) -> None:
    for name in ("train.py", "environment.yml", "x.whl", "requirements"):
        (tmp_path / name).touch()
        assert recipe_of(tmp_path / name) is None
