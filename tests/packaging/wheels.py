"""Small distributions for real installers, made without a build and without a network."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not when a project imports this to build itself.
    import pytest

UV = Path(__file__).parents[2] / ".cache/uv/bin/uv"
"""The uv that ``scripts/environment`` fetches."""

BACKEND = '''\
"""A build backend of its own: a wheel of the modules in ``src``."""
import os, sys
sys.path.insert(0, {tests!r})
from tests.packaging.wheels import write_wheel

def build_wheel(directory, config_settings=None, metadata_directory=None):
    files = {{name: open(f"src/{{name}}").read() for name in sorted(os.listdir("src"))}}
    return write_wheel(directory, {name!r}, files, requires={requires!r}).name
'''


def write_wheel(
    folder: str | os.PathLike[str],
    name: str,
    files: dict[str, str],
    *,
    requires: tuple[str, ...] = (),
) -> Path:
    """Write ``<name>-1.0-py3-none-any.whl``; its command ``<name>`` is ``<name>:main``."""
    place = Path(folder) / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
    files = {
        **files,
        f"{info}/METADATA": "".join(f"{line}\n" for line in metadata),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    with zipfile.ZipFile(place, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, "RECORD"]))
    return place


def write_project(folder: Path, name: str, *, requires: tuple[str, ...] = ()) -> None:
    """Write a project with one module of its name, ``ANSWER = 1``, that builds itself."""
    (folder / "src").mkdir(parents=True)
    (folder / "src" / f"{name}.py").write_text("ANSWER = 1\n")
    tests = str(Path(__file__).parents[2])
    (folder / "backend.py").write_text(BACKEND.format(tests=tests, name=name, requires=requires))
    (folder / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        f"[project]\nname = '{name}'\nversion = '1.0'\ndependencies = {list(requires)!r}\n"
    )


def use_local_wheels(wheels: Path, monkeypatch: pytest.MonkeyPatch, *, with_uv: bool) -> None:
    """Let uv (or else pip) find distributions in this directory and nowhere else."""
    for variable in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(variable)
    for variable in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(variable, str(wheels))
    for variable in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(wheels / "cache"))
    own = f"{UV.parent}:" if with_uv else ""
    monkeypatch.setenv("PATH", f"{own}/usr/bin:/bin")
