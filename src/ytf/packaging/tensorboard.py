"""Finds the TensorBoard to run, or installs it into ``$YTF_HOME/environments``.

The environment is named by the hash of its requirements: a changed list of
packages makes another environment, and a running job keeps its own. It is made
in a temporary directory and renamed, so an environment with its final name is
complete.

Every package, with all that it needs, is listed with the hashes of its files, and only
wheels are installed: whoever answers for an index cannot give other code, and nothing is
built with tools that are not listed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from ytf.errors import SettingsError
from ytf.home import home_directory, make_private_directory

TENSORBOARD_VARIABLE = "YTF_TENSORBOARD"
"""The variable that names a TensorBoard to use instead of ytf's own."""

_BUILDING = ".building-"
_LAST_LINES = 5
_SILENCE_S = 5.0
"""After so long without a word the user is told that the work goes on."""
_READER_S = 5.0
_PROGRESS = ("Resolved ", "Downloading ", "Building ", "Prepared ", "Install")
"""How the lines of uv and pip begin that show how far they are."""
_WHEEL = re.compile(r"(-[0-9][^- ]*)-\S*\.whl")
"""The end of a wheel's name, which says what it is built for, after the version."""


def _ignore_progress(text: str) -> None:
    """Do nothing."""


class TensorBoardCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The first words of TensorBoard's command line, and the environment that has them.

    If ``environment`` is None, the first word is a path or is found on the PATH.
    """

    argv: tuple[str, ...]
    environment: str | None = None


class _Progress:
    """Tells a user how far an installation is."""

    def __init__(self, on_progress: Callable[[str], None]) -> None:
        self._on_progress = on_progress
        self._started = time.monotonic()

    def elapsed_s(self) -> float:
        """The time since the beginning."""
        return time.monotonic() - self._started

    def line(self, line: str) -> None:
        """Pass on a line of uv or pip if it is about a package."""
        text = line.strip()
        if text.startswith(_PROGRESS):
            self._on_progress(_WHEEL.sub(r"\1", text))

    def silence(self) -> None:
        """Say that the work goes on, though nothing was heard of it for a while."""
        self._on_progress(f"still at it ({self.elapsed_s():.0f} s)")


def find_tensorboard(on_progress: Callable[[str], None] = _ignore_progress) -> TensorBoardCommand:
    """Return the command in ``YTF_TENSORBOARD``, else that of ytf's own environment.

    The first call makes the environment, which takes seconds and needs the
    network; later calls find it. ``on_progress`` is called with a text before
    anything slow. Raises ``SettingsError`` if the command cannot be run, or the
    environment cannot be made.
    """
    given = os.environ.get(TENSORBOARD_VARIABLE)
    if given:
        return TensorBoardCommand(argv=_given_command(given))
    requirements = Path(__file__).with_name("tensorboard.txt")
    path = _ensure_environment("TensorBoard", requirements, on_progress)
    # As a module: the script's first line names the temporary directory.
    # Isolated: files shipped to the task must not replace its modules.
    return TensorBoardCommand(
        argv=("python", "-I", "-m", "tensorboard.main"), environment=str(path)
    )


def _given_command(given: str) -> tuple[str, ...]:
    try:
        words = shlex.split(given)
    except ValueError as exc:
        raise SettingsError(f"{TENSORBOARD_VARIABLE} is not a command: {exc}: {given}") from exc
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise SettingsError(
            f"{TENSORBOARD_VARIABLE} names no command that can be run: {given}",
            hint="give the path of a tensorboard, or unset it to have one installed",
        )
    # A relative path would be wrong in the working directory of a task.
    return (os.path.abspath(found), *words[1:])


def _ensure_environment(tool: str, requirements: Path, on_progress: Callable[[str], None]) -> Path:
    """Return the path of a tool's environment; makes it if it does not exist."""
    parent = home_directory("environments")
    path = parent / f"{tool.lower()}-{_digest(requirements)}"
    if _usable(path):
        return path
    make_private_directory(parent)
    with _locked(parent, lambda: on_progress(f"waiting for another command that makes {tool}")):
        if not _usable(path):
            on_progress(f"making an environment for {tool}, once: this may take a minute")
            progress = _Progress(on_progress)
            _make(tool, requirements, path, progress)
            on_progress(f"made {path} in {progress.elapsed_s():.0f} s")
    return path


def _digest(requirements: Path) -> str:
    """Return a hash of everything an environment depends on."""
    parts = (requirements.read_text(), sys.implementation.cache_tag, platform.machine())
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _python(path: Path) -> Path:
    return path / "bin" / "python"


def _usable(path: Path) -> bool:
    # This follows the link: the interpreter it was made with may be gone.
    return os.access(_python(path), os.X_OK)


@contextmanager
def _locked(parent: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of all environments; the kernel releases it when the process ends."""
    with (parent / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(tool: str, requirements: Path, path: Path, progress: _Progress) -> None:
    """Make an environment, or raise and leave nothing at the path. The caller holds the lock."""
    for left in path.parent.glob(f"{_BUILDING}*"):
        # A killed command left it: no other process builds while this one holds the lock.
        shutil.rmtree(left)
    building = path.parent / f"{_BUILDING}{path.name}"
    building.mkdir()
    try:
        for step in _steps(building, requirements):
            _run(tool, step, building, progress)
        if path.exists():
            shutil.rmtree(path)
        building.rename(path)
    finally:
        if building.exists():
            shutil.rmtree(building)


def _steps(building: Path, requirements: Path) -> list[list[str]]:
    """Return the commands that make an environment and install the requirements."""
    python, target = str(_python(building)), str(building)
    uv = shutil.which("uv")
    if uv is not None:
        return [
            [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, target],
            [uv, "pip", "install", "--python", python, *_pinned(requirements)],
        ]
    pip = [python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    return [
        [sys.executable, "-I", "-m", "venv", target],
        [*pip, "install", *_pinned(requirements)],
    ]


def _pinned(requirements: Path) -> list[str]:
    """Return the options of ``pip install`` for a list with hashes; uv has the same ones."""
    return ["--require-hashes", "--only-binary", ":all:", "-r", str(requirements)]


def _run(tool: str, step: list[str], building: Path, progress: _Progress) -> None:
    """Run one step, and pass on what it says of its progress."""
    code, output = _follow(step, building, progress)
    if code == 0:
        return
    last = [line for line in output if line.strip()][-_LAST_LINES:] or ["no message"]
    raise SettingsError(
        f"cannot make an environment for {tool}: `{shlex.join(step)}` exited with {code}:\n"
        + "\n".join(last),
        hint=f"set {TENSORBOARD_VARIABLE}=/path/to/tensorboard to use one that you have, or try "
        "again with a network and with uv or Python's venv (Debian: python3-venv) installed; if "
        "hashes do not match, the index or a proxy gives other files than those ytf was made with",
    )


def _follow(step: list[str], building: Path, progress: _Progress) -> tuple[int, list[str]]:
    """Run a command to its end, and report its progress: its exit code and its output."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    output: list[str] = []

    def read(pipe: IO[str]) -> None:
        for line in pipe:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    # Not in the user's directory, whose project settings (uv, pip) must not apply.
    process = subprocess.Popen(
        step,
        cwd=building,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        while True:
            try:
                line = lines.get(timeout=_SILENCE_S)
            except queue.Empty:
                progress.silence()
                continue
            if line is None:
                break
            output.append(line)
            progress.line(line)
    except BaseException:
        process.kill()
        raise
    finally:
        code = process.wait()
        # Processes that the command has started may keep the pipe open.
        reader.join(_READER_S)
        if not reader.is_alive():
            process.stdout.close()
    return code, output
