"""Environments of tools that ytf brings itself, below ``$YTF_HOME/environments``.

Each is named by the hash of what is in it, so a changed list of packages is
another environment and a running job keeps the one it began with. It is made
in a directory beside its place and renamed into it: whatever has its final
name is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.home import home

TENSORBOARD = "YTF_TENSORBOARD"
"""The variable that names a TensorBoard to use in place of ytf's own."""

_BUILDING = ".building-"
_LAST_LINES = 5


def _silent(text: str) -> None:
    """For callers who want to hear nothing."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The first words of a command line, and the environment they are to be found in.

    ``environment`` None: they are found as they are.
    """

    argv: tuple[str, ...]
    environment: str | None = None


def tensorboard(progress: Callable[[str], None] = _silent) -> Tool:
    """What runs TensorBoard.

    The command in ``YTF_TENSORBOARD``, else one from an environment of its
    own, which is made at the first call (seconds, and needs the network) and
    found again in no time after it. ``progress`` is told of what takes long.
    Raises ``SettingsError`` if there is no such command, or no way to make it.
    """
    given = os.environ.get(TENSORBOARD)
    if given:
        return Tool(argv=_command(given))
    requirements = Path(__file__).with_name("tensorboard.txt")
    place = _place_of("TensorBoard", requirements, progress)
    # By module: the script's first line names the directory it was made in.
    # Isolated: files shipped to the task must not stand in for its modules.
    return Tool(argv=("python", "-I", "-m", "tensorboard.main"), environment=str(place))


def _command(given: str) -> tuple[str, ...]:
    try:
        words = shlex.split(given)
    except ValueError as exc:
        raise SettingsError(f"{TENSORBOARD} is not a command: {exc}: {given}") from exc
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise SettingsError(
            f"{TENSORBOARD} names no command that can be run: {given}",
            hint="give the path of a tensorboard, or unset it to have one made",
        )
    # A task has a working directory of its own: a relative path means nothing there.
    return (os.path.abspath(found), *words[1:])


def _place_of(tool: str, requirements: Path, progress: Callable[[str], None]) -> Path:
    """Where a tool's environment is, which is made if it is not there."""
    parent = home() / "environments"
    place = parent / f"{tool.lower()}-{_digest(requirements)}"
    if _usable(place):
        return place
    parent.mkdir(parents=True, exist_ok=True)
    with _alone(parent, lambda: progress(f"waiting for another command that makes {tool}")):
        if not _usable(place):
            started = time.monotonic()
            progress(f"making an environment for {tool}, once ...")
            _make(tool, requirements, place)
            progress(f"made {place} in {time.monotonic() - started:.0f} s")
    return place


def _digest(requirements: Path) -> str:
    """Stands for everything an environment depends on."""
    parts = (requirements.read_text(), sys.implementation.cache_tag, platform.machine())
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _python(place: Path) -> Path:
    return place / "bin" / "python"


def _usable(place: Path) -> bool:
    # Follows the link: the interpreter that it was made with may be gone.
    return os.access(_python(place), os.X_OK)


@contextmanager
def _alone(parent: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of all environments; it goes with the process, however that ends."""
    with (parent / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(tool: str, requirements: Path, place: Path) -> None:
    """Make an environment at its place, or raise and leave nothing there. Needs the lock."""
    for left in place.parent.glob(f"{_BUILDING}*"):
        # Of a command that was killed: nobody else builds while we have the lock.
        shutil.rmtree(left)
    building = place.parent / f"{_BUILDING}{place.name}"
    building.mkdir()
    try:
        for step in _steps(building, requirements):
            _run(tool, step, building)
        if place.exists():
            shutil.rmtree(place)
        building.rename(place)
    finally:
        if building.exists():
            shutil.rmtree(building)


def _steps(building: Path, requirements: Path) -> list[list[str]]:
    """The commands that make an environment and fill it."""
    python, target = str(_python(building)), str(building)
    uv = shutil.which("uv")
    if uv is not None:
        return [
            [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, target],
            [uv, "pip", "install", "--quiet", "--python", python, "-r", str(requirements)],
        ]
    pip = [python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    return [
        [sys.executable, "-I", "-m", "venv", target],
        [*pip, "install", "-r", str(requirements)],
    ]


def _run(tool: str, step: list[str], building: Path) -> None:
    # Away from the user's directory, whose project settings are not meant for it.
    done = subprocess.run(
        step, cwd=building, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
    raise SettingsError(
        f"cannot make an environment for {tool}: `{shlex.join(step)}` exited with "
        f"{done.returncode}:\n" + "\n".join(said[-_LAST_LINES:]),
        hint=f"name a TensorBoard that you have with {TENSORBOARD}=/path/to/tensorboard, or try "
        "again with a network and with uv or Python's venv (Debian: python3-venv) installed",
    )
