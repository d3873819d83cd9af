"""Makes environments from ``requirements.txt``, ``pyproject.toml`` and ``uv.lock``.

An environment is named by the content of its file and by the Python that runs ytf, which is
also its Python. It stays as it was made: a requirement without a version is not looked up
again. A project itself is installed again when one of its files has changed; what it
depends on stays.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.packaging.installers import InstallProgress, install_steps, run_step, uv_program
from ytf.packaging.made_environments import EnvironmentRecipe

PROJECT_FILE = "pyproject.toml"
LOCK_FILE = "uv.lock"
_PROJECT_PARTS = (PROJECT_FILE, "setup.py", "setup.cfg")
"""The files that say what a project depends on."""
_HINT = (
    "if the message is about the network or an index, set pip's or uv's own variables "
    "(PIP_INDEX_URL, UV_INDEX_URL, HTTPS_PROXY); if it is about venv or ensurepip, install uv or "
    "Debian's python3-venv; or make a venv yourself and give its directory"
)

_OPTION = re.compile(r"(?:-(?P<short>[rce])|--(?P<long>requirement|constraint|editable))[\s=]*")
_LOCAL_URL = re.compile(r"(?:^|@\s*)file://(?:localhost)?(?P<path>/[^\s;#]*)")
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tar.bz2", ".tar.xz")
# Made by builds, tests and editors; not a part of what is installed.
_NOT_SOURCES = {"__pycache__", "build", "dist", "node_modules"}


class _Named(msgspec.Struct, frozen=True):
    name: str | None = None


class _Tools(msgspec.Struct, frozen=True):
    poetry: _Named = _Named()


class _ProjectFile(msgspec.Struct, frozen=True):
    """What is read of a ``pyproject.toml``."""

    project: _Named = _Named()
    tool: _Tools = _Tools()


def requirements_recipe(file: Path) -> EnvironmentRecipe:
    """Return how to make the environment of a file in pip's format."""
    texts, sources = _read_requirements(file, file.parent, set())

    def make(path: Path, progress: InstallProgress) -> None:
        _run(install_steps(path, ["-r", str(file)]), file, progress)

    return EnvironmentRecipe(
        name=f"requirements-{_digest([*texts, *sources])}", about=file.name, make=make
    )


def project_recipe(file: Path) -> EnvironmentRecipe:
    """Return how to make the environment of a project: its dependencies and itself."""
    folder = file.parent
    name = _project_name(file)

    def make(path: Path, progress: InstallProgress) -> None:
        _run(install_steps(path, [str(folder)], reinstalled=name), file, progress)

    return EnvironmentRecipe(
        name=f"{_file_name(name)}-{_digest(_project_parts(folder, _PROJECT_PARTS))}",
        about=name,
        make=make,
        sources=_source_digest(folder),
    )


def lock_recipe(file: Path) -> EnvironmentRecipe:
    """Return how to make the environment of a project as uv has locked it.

    Raises ``SettingsError`` if uv is not installed.
    """
    folder = file.parent
    name = _project_name(folder / PROJECT_FILE)
    uv = uv_program()
    if uv is None:
        raise SettingsError(
            f"{file} can only be read by uv, which is not on the PATH",
            hint=f"install uv; or give {folder / PROJECT_FILE}, or what "
            "`uv export -o requirements.txt` writes where uv is installed",
        )
    step = [uv, "sync", "--locked", "--no-dev", "--no-editable", "--python", sys.executable]
    step += ["--reinstall-package", name]

    def make(path: Path, progress: InstallProgress) -> None:
        _run([step], file, progress, {**os.environ, "UV_PROJECT_ENVIRONMENT": str(path)})

    return EnvironmentRecipe(
        name=f"{_file_name(name)}-{_digest(_project_parts(folder, (LOCK_FILE, *_PROJECT_PARTS)))}",
        about=name,
        make=make,
        sources=_source_digest(folder),
    )


def _run(
    steps: list[list[str]],
    file: Path,
    progress: InstallProgress,
    environ: dict[str, str] | None = None,
) -> None:
    for step in steps:
        # In the directory of the file, to which its paths are relative, with its settings.
        run_step(
            step, about=file.name, cwd=file.parent, progress=progress, hint=_HINT, environ=environ
        )


def _digest(parts: Iterable[str]) -> str:
    """Return a hash of these and of the Python that the environment gets."""
    python = (sys.implementation.cache_tag or "", sys.base_prefix, platform.machine())
    known = hashlib.sha256()
    for part in (*python, *parts):
        data = part.encode(errors="surrogateescape")
        # With the length first, two different lists never give the same bytes.
        known.update(b"%d " % len(data) + data)
    return known.hexdigest()[:16]


def _read_requirements(file: Path, base: Path, seen: set[Path]) -> tuple[list[str], list[str]]:
    """Return the texts of a file and of those that it names, and the states of local packages.

    Pip reads files relative to the file that names them, and packages relative to ``base``.
    """
    file = file.resolve()
    if file in seen:
        return [], []
    seen.add(file)
    text = _text(file)
    texts, sources = [text], []
    for line in text.replace("\\\n", "").splitlines():
        option = _OPTION.match(line)
        rest = re.split(r"\s[#;]|\s--?\w", line[option.end() :] if option else line)[0].strip()
        if option is None:
            url = _LOCAL_URL.search(rest)
            is_path = "/" in rest or rest.startswith(".") or rest.endswith(_ARCHIVES)
            place = base / (url["path"] if url else rest.partition("[")[0])
            if is_path and not rest.startswith(("#", "-")) and place.exists():
                sources += [str(place), _source_digest(place)]
        elif option["short"] == "e" or option["long"] == "editable":
            # Where it is and what it depends on: its files are read when it is used.
            sources += _project_parts(base / rest.partition("[")[0], _PROJECT_PARTS)
        elif "://" not in rest:
            more, also = _read_requirements(file.parent / rest, base, seen)
            texts += more
            sources += also
    return texts, sources


def _project_parts(folder: Path, names: Iterable[str]) -> Iterator[str]:
    yield str(folder)
    for name in names:
        path = folder / name
        yield _text(path) if path.exists() else ""


def _project_name(file: Path) -> str:
    try:
        found = msgspec.toml.decode(_text(file), type=_ProjectFile)
    except (msgspec.DecodeError, UnicodeEncodeError) as exc:
        raise SettingsError(f"{file} cannot be read: {exc}") from exc
    name = found.project.name or found.tool.poetry.name
    if name is None:
        raise SettingsError(
            f"{file} names no project to install",
            hint="give it a [project] table with name, version and dependencies; "
            "or give a requirements.txt",
        )
    return name


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40] or "_"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as exc:
        raise SettingsError(f"{file} cannot be read: {exc.strerror}") from exc


def _source_digest(place: Path) -> str:
    """Return a hash that changes if a file, or one below a directory, may have changed."""
    known = hashlib.sha256()
    for path, status in sorted(_source_files(str(place))):
        known.update(repr((path, status)).encode(errors="surrogateescape"))
    return known.hexdigest()


def _source_files(place: str) -> Iterator[tuple[str, tuple[int, int]]]:
    if not os.path.isdir(place):
        status = os.stat(place)
        yield place, (status.st_size, status.st_mtime_ns)
        return
    with os.scandir(place) as items:
        for item in items:
            if item.name in _NOT_SOURCES or item.name.endswith((".egg-info", ".pyc")):
                continue
            if item.is_dir(follow_symlinks=False):
                # Hidden directories are those of tools; pyvenv.cfg marks another environment.
                if not item.name.startswith(".") and not os.path.exists(f"{item.path}/pyvenv.cfg"):
                    yield from _source_files(item.path)
            elif item.is_file(follow_symlinks=False):
                status = item.stat(follow_symlinks=False)
                yield item.path, (status.st_size, status.st_mtime_ns)
