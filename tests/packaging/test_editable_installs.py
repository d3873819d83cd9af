"""The sources of editable installs are found in what their build backends write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.packaging.venvs import PYTHON, Venv
from ytf.packaging.editable_installs import find_editable_installs, unshipped_editable_installs
from ytf.packaging.environment_layers import code_contents, file_groups, list_environment
from ytf.packaging.layers import LayerEntry, LayerKind

PACKAGES = f"lib/{PYTHON}/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(tmp_path / "venv")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package with data, a hidden file, an empty directory, and what tools left in it."""
    root = tmp_path / "a project"
    for path in (
        "src/pkg/__init__.py", "src/pkg/sub/__init__.py", "src/pkg/data.txt", "src/pkg/.hidden",
        "src/pkg/.mypy_cache/x", "src/pkg/env/pyvenv.cfg", "src/.env", "src/.git/config",
        "src/single.py", "src/pkg/stale/__pycache__/x.pyc",
    ):  # fmt: skip
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    (root / "src/pkg/empty").mkdir()
    return root


WHOLE = {"__init__.py", "sub/__init__.py", "data.txt", ".hidden", "empty"}


def install(venv: Venv, pth: str, **files: str) -> None:
    """An editable install of pkg, with a ``.pth`` file and modules beside it."""
    venv.install(
        "pkg",
        {"pkg.pth": pth.encode()}
        | {f"{name}.py": text.encode() for name, text in files.items()}
        | {
            "pkg-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: somebuild 2\n",
            "pkg-1.0.dist-info/direct_url.json": json.dumps(
                {"url": "file:///x", "dir_info": {"editable": True}}
            ).encode(),
        },
    )


def code(venv: Venv) -> dict[str, LayerEntry]:
    """The files of the code layers, by path."""
    layers = code_contents(venv.installation, list_environment(venv.installation))
    assert all(layer.kind is LayerKind.CODE for layer in layers)
    return {each.path: each for layer in layers for each in layer.entries}


def installed(venv: Venv) -> set[str]:
    """The paths of all files of the environment, relative to its packages."""
    found, listed = venv.installation, list_environment(venv.installation)
    entries = [each for group in file_groups(found, listed) for each in group.entries]
    entries += [each for layer in code_contents(found, listed) for each in layer.entries]
    return {each.path.removeprefix(f"{PACKAGES}/") for each in entries}


def test_a_directory_becomes_a_layer_of_code(venv: Venv, project: Path) -> None:
    install(venv, f"{project}/src\n")
    venv.write(f"{PACKAGES}/old.egg-link", b"/somewhere")
    found = code(venv)
    # A hidden file beside the packages is no part of any.
    expected = {f"src/pkg-0/pkg/{path}" for path in WHOLE} | {"src/pkg-0/single.py"}
    assert set(found) == expected
    assert found["src/pkg-0/pkg/empty"].is_directory
    replaced = find_editable_installs(str(venv.packages), PACKAGES).replaced
    assert (replaced[f"{PACKAGES}/pkg.pth"] or LayerEntry("")).data == b"../../../src/pkg-0\n"
    assert "old.egg-link" not in installed(venv)


def editables(project: Path, venv: Venv) -> None:
    """As hatch writes it with ``dev-mode-exact``."""
    hook = (
        "from editables.redirector import RedirectingFinder as F\nF.install()\n"
        f"F.map_module('pkg', '{project}/src/pkg/__init__.py')\n"
        f"F.map_module('single', '{project}/src/single.py')\n"
    )
    install(venv, "import _editable_impl_pkg", _editable_impl_pkg=hook)


def scikit_build_core(project: Path, venv: Venv) -> None:
    known = {
        "pkg": f"{project}/src/pkg/__init__.py",
        "pkg.sub": f"{project}/src/pkg/sub/__init__.py",
        "single": f"{project}/src/single.py",
    }
    hook = f"def install(*given): ...\n\ninstall({known!r}, {{'pkg._core': 'pkg/_core.so'}}, None)"
    pth = f"import _editable_skbc_pkg\n{project}/src\n"
    install(venv, pth, _editable_skbc_pkg=hook)


def meson(project: Path, venv: Venv) -> None:
    source = project / "src/pkg"
    names = ("__init__.py", "data.txt", ".hidden")
    files = {
        f"{source}/{name}": {"destination": f"{{py_platlib}}/pkg/{name}", "tag": None}
        for name in names
    }
    files[f"{project}/src/single.py"] = {"destination": "{py_purelib}/single.py", "tag": None}
    files["/elsewhere"] = {"destination": "{bindir}/tool", "tag": None}
    (source / "sub/not this").write_text("")
    plan = {
        "python": files,
        "install_subdirs": {
            f"{source}/sub": {
                "destination": "{py_platlib}/pkg/sub",
                "exclude_files": ["not this"],
                "exclude_dirs": [],
            },
            f"{source}/empty": {"destination": "{py_platlib}/pkg/empty"},
        },
    }
    info = project / "build/meson-info"
    info.mkdir(parents=True)
    (info / "intro-install_plan.json").write_text(json.dumps(plan))
    hook = (
        "def init():\n"
        f"    finder = MesonpyMetaFinder('pkg', {{'pkg'}}, '{project}/build', ['ninja'], False)\n"
    )
    install(venv, "import _pkg_editable_loader; x.init()", _pkg_editable_loader=hook)


def setuptools(project: Path, venv: Venv) -> None:
    mapping = {name: f"{project}/src/{name}" for name in ("pkg", "single")}
    hook = f"MAPPING: dict[str, str] = {mapping!r}\nNAMESPACES: dict[str, list[str]] = {{}}\n"
    name = "__editable___pkg_1_0_finder"
    install(venv, f"import {name}; {name}.install()", **{name: hook})


@pytest.mark.parametrize("backend", [editables, scikit_build_core, meson, setuptools])
def test_what_an_import_hook_finds_is_shipped_where_it_is_imported(
    venv: Venv, project: Path, backend: object
) -> None:
    assert callable(backend)
    backend(project, venv)
    assert set(code(venv)) == {f"{PACKAGES}/pkg/{path}" for path in WHOLE} | {
        f"{PACKAGES}/single.py"
    }
    # Neither the pointer nor the hook.
    assert not [path for path in installed(venv) if path.endswith(".pth") or "editable" in path]
    assert unshipped_editable_installs(str(venv.packages)) == []


def test_what_is_built_into_the_packages_stays(venv: Venv, project: Path) -> None:
    scikit_build_core(project, venv)
    venv.write(f"{PACKAGES}/pkg/_core.so", b"built")
    assert {"pkg/_core.so", "pkg/__init__.py"} <= installed(venv)


@pytest.mark.parametrize(
    ("pth", "hook"),
    [
        ("import _editable_pkg", "unknown()"),
        ("import _editable_pkg", "F.map_module('pkg', '/gone/pkg/__init__.py')"),
        ("import _editable_pkg", "not python"),
        ("import something_else", ""),
        ("/gone/src", ""),
    ],
)
def test_a_pointer_that_leads_nowhere_is_named(venv: Venv, pth: str, hook: str) -> None:
    install(venv, pth, _editable_pkg=hook)
    [note] = unshipped_editable_installs(str(venv.packages))
    assert note.startswith("pkg is an editable install by somebuild 2, and where its source is")
    assert note.endswith("Install pkg without -e, or give its source with --files")


def test_other_installs_are_not_named(venv: Venv) -> None:
    venv.install("normal", {"normal.py": b"", "normal-nspkg.pth": b"import sys\n"})
    venv.install("odd", {"odd.py": b"", "odd-1.0.dist-info/direct_url.json": b"{"})
    assert unshipped_editable_installs(str(venv.packages)) == []
