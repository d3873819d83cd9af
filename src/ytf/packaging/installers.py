"""Runs uv, or Python's venv and pip, and tells the user how far they are."""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from ytf.errors import SettingsError

_LAST_LINES = 10
_KEPT_LINES = 200
_SILENCE_S = 5.0
"""After so long without a word the user is told that the work goes on."""
_READER_S = 5.0
_PROGRESS = ("Resolved ", "Downloading ", "Building ", "Prepared ", "Install")
"""How the lines of uv and pip begin that show how far they are."""
_WHEEL = re.compile(r"(-[0-9][^- ]*)-\S*\.whl")
"""The end of a wheel's name, which says what it is built for, after the version."""
# The kernel ends the program when this process is killed: it must not go on writing where
# the next command makes the environment anew. Not by preexec_fn, which is not for threads.
_TIED_TO_US = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as exc:
    sys.exit(f"{sys.argv[2]} cannot be run: {exc.strerror}")
"""


class InstallProgress:
    """Tells a user how far an installation is."""

    def __init__(self, on_progress: Callable[[str], None]) -> None:
        self.tell = on_progress
        self._started = self._last_worked = time.monotonic()

    def elapsed_s(self) -> float:
        """The time since the beginning."""
        return time.monotonic() - self._started

    def line(self, line: str) -> None:
        """Pass on a line of uv or pip if it is about a package."""
        text = line.strip()
        if text.startswith(_PROGRESS):
            self.tell(_WHEEL.sub(r"\1", text))

    def silence(self) -> None:
        """Say that the work goes on, though nothing was heard of it for a while."""
        self.tell(f"still at it ({self.elapsed_s():.0f} s)")

    def working(self, text: str) -> None:
        """Say now and then how far it is; may be called as often as one likes."""
        now = time.monotonic()
        if now - self._last_worked >= _SILENCE_S:
            self._last_worked = now
            self.tell(f"still at it ({self.elapsed_s():.0f} s): {text}")


def uv_program() -> str | None:
    """Return the path of uv, if it is installed."""
    return shutil.which("uv")


def install_steps(
    environment: Path, what: Sequence[str], *, reinstalled: str | None = None
) -> list[list[str]]:
    """Return the commands that make an environment, if there is none, and install into it.

    ``what`` are arguments of ``pip install``; uv has the same ones. ``reinstalled`` is the
    distribution of a directory among them: its files may have changed though its version
    has not.
    """
    python, target = str(environment / "bin" / "python"), str(environment)
    is_new = not os.path.lexists(python)
    uv = uv_program()
    if uv is not None:
        make = [uv, "venv", "--quiet", "--python", sys.executable, target]
        again = ["--reinstall-package", reinstalled] if reinstalled else []
        install = [uv, "pip", "install", "--python", python, *again, *what]
    else:
        make = [sys.executable, "-I", "-m", "venv", target]
        # Pip installs a directory again by itself.
        pip = [python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
        install = [*pip, "install", *what]
    return [make, install] if is_new else [install]


def run_step(
    step: Sequence[str],
    *,
    about: str,
    cwd: Path,
    progress: InstallProgress,
    hint: str,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Run one command, and pass on what it says of its progress.

    Raises ``SettingsError`` with its last lines if it fails. An exception out of
    ``progress`` ends it, and so does the end of this process.
    """
    code, output = _follow(step, cwd, progress, environ)
    if code == 0:
        return
    last = [line for line in output if line.strip()][-_LAST_LINES:] or ["no message"]
    raise SettingsError(
        f"cannot make an environment for {about}: `{shlex.join(step)}` exited with {code}:\n"
        + "\n".join(last),
        hint=hint,
    )


def _follow(
    step: Sequence[str], cwd: Path, progress: InstallProgress, environ: Mapping[str, str] | None
) -> tuple[int, Sequence[str]]:
    """Run a command to its end, and report its progress: its exit code and its last output."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    output: deque[str] = deque(maxlen=_KEPT_LINES)

    def read(pipe: IO[str]) -> None:
        for line in pipe:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _TIED_TO_US, str(os.getpid()), *step],
        cwd=cwd,
        env=environ,
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
    return code, list(output)
