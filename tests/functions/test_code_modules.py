from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from ytf.errors import SpecError
from ytf.functions.code_modules import TaskEnvironment, copy_modules, modules_to_ship

OURS = TaskEnvironment(sys.prefix)
NODE = TaskEnvironment(None)


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules that are not installed: ``first`` imports ``second``, which imports a package."""
    folder = tmp_path / "my code"
    (folder / "third" / "deep").mkdir(parents=True)
    (folder / "ytf_first.py").write_text("import ytf_second\nimport json, msgspec, absent\n")
    (folder / "ytf_second.py").write_text("def later():\n    from ytf_third import deep\n")
    third = folder / "ytf_third"
    (third / "deep").mkdir(parents=True)
    (third / "__init__.py").write_text("")
    (third / "deep" / "__init__.py").write_text("")
    (third / "table.csv").write_text("1,2\n")
    (third / "__pycache__").mkdir()
    (third / "__pycache__" / "x.pyc").write_bytes(b"x")
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> TaskEnvironment:
    """An environment without packages."""
    prefix = tmp_path_factory.mktemp("other") / "venv"
    venv.create(prefix, symlinks=True)
    return TaskEnvironment(str(prefix))


def test_what_is_installed_or_standard_stays(local: Path) -> None:
    assert modules_to_ship({"os", "sys", "msgspec", "cloudpickle", "nothing"}, OURS, "f") == {}


def test_editable_installs_are_in_the_environment() -> None:
    assert modules_to_ship({"ytf"}, OURS, "f") == {}


def test_local_modules_travel_with_those_that_they_import(local: Path, tmp_path: Path) -> None:
    found = modules_to_ship({"ytf_first", "json"}, OURS, "f")
    assert found == {
        "ytf_first.py": local / "ytf_first.py",
        "ytf_second.py": local / "ytf_second.py",
        "ytf_third": local / "ytf_third",
    }
    assert modules_to_ship({"ytf_first", "json"}, NODE, "f") == found
    size = copy_modules(found, tmp_path / "code")
    copied = {str(p.relative_to(tmp_path / "code")) for p in (tmp_path / "code").rglob("*")}
    assert copied == {
        "ytf_first.py", "ytf_second.py", "ytf_third", "ytf_third/__init__.py", "ytf_third/deep",
        "ytf_third/deep/__init__.py", "ytf_third/table.csv",
    }  # fmt: skip
    assert size == sum(p.stat().st_size for p in (tmp_path / "code").rglob("*") if p.is_file())


def test_what_another_environment_lacks_is_named(other: TaskEnvironment, local: Path) -> None:
    with pytest.raises(SpecError, match=r"train uses msgspec, which is installed here and not in"):
        modules_to_ship({"msgspec"}, other, "train")
    # What a module of ours imports may be optional.
    assert "ytf_first.py" in modules_to_ship({"ytf_first"}, other, "train")
    assert "ytf" in modules_to_ship({"ytf"}, other, "train")


def test_a_module_in_an_archive_cannot_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("ytf_zipped.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    with pytest.raises(SpecError, match=r"ytf_zipped is in .*packed\.zip/ytf_zipped\.py, which"):
        modules_to_ship({"ytf_zipped"}, OURS, "f")


def test_another_version_of_python_is_found(
    other: TaskEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.check_version("train")
    OURS.check_version("train")
    NODE.check_version("train")
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    with pytest.raises(SpecError, match=r"train is of Python 3\.99, .* has Python 3\.\d+: "):
        other.check_version("train")
