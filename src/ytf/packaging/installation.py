"""Finds out about a Python on this machine: the running one, or one at a path of the user."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from pathlib import Path

import msgspec

from ytf.decoding import convert, decode_json
from ytf.errors import SettingsError
from ytf.packaging import interpreter_script
from ytf.packaging.layers import Bytecode, file_stamp, fingerprint_of

_SHOWS_NO_BASE = re.compile(
    r"^include-system-site-packages[ \t]*=[ \t]*false[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_HOME = re.compile(r"^home[ \t]*=[ \t]*(/.*?)[ \t]*$", re.MULTILINE)


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """Where an environment and its interpreter have their parts."""

    executable: str
    base_executable: str
    """The interpreter itself, to which the links of a virtual environment lead."""
    implementation: str
    version: str
    prefix: str
    base_prefix: str
    stdlib: str
    site_folders: tuple[str, ...]
    """The directories of installed packages; the first one has precedence."""
    scripts: str
    library: str
    """libpython, if the interpreter is linked with it."""
    tag: str
    magic: str

    @property
    def is_virtual(self) -> bool:
        """Whether it is a virtual environment, which has packages but no interpreter."""
        return self.prefix != self.base_prefix

    @property
    def is_conda(self) -> bool:
        """Whether conda made it: then other libraries and programs are part of it as well."""
        return os.path.isdir(os.path.join(self.base_prefix, "conda-meta"))

    @property
    def packages(self) -> str:
        """The directory of packages, relative to the root of the environment on a node."""
        return f"lib/python{self.version}/site-packages"

    @property
    def bytecode(self) -> Bytecode | None:
        """The Python for which its modules are compiled."""
        if not self.tag:
            return None
        return Bytecode(python=self.executable, tag=self.tag, magic=self.magic)


def current() -> Installation:
    """Return the Python that runs this process."""
    return _checked(convert(interpreter_script.interpreter_facts(), Installation))


def at(path: Path) -> Installation:
    """Return the Python at a path: a virtual or conda environment, or an interpreter.

    Raises ``SettingsError`` if there is none, or if it cannot be shipped.
    """
    python = path / "bin" / "python" if path.is_dir() else path
    if not os.access(python, os.X_OK):
        raise SettingsError(
            f"there is no Python environment at {path}: {python} cannot be run",
            hint="name the directory of a venv or conda environment, or its bin/python",
        )
    # -E and -s, not -I: only its own packages count, whatever the user's variables are.
    done = subprocess.run(
        [str(python.absolute()), "-E", "-s", interpreter_script.__file__, "facts"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise SettingsError(
            f"{python} does not run: it exited with {done.returncode}: {last}",
            hint="make the environment again; the Python it was made with may be gone",
        )
    try:
        return _checked(decode_json(done.stdout, Installation))
    except msgspec.DecodeError as exc:
        raise SettingsError(
            f"{python} does not answer as a Python does",
            hint="name the directory of a venv or conda environment, or its bin/python",
        ) from exc


def fingerprint(path: Path) -> str | None:
    """Return a hash that changes if :func:`at` may return something else; None if nobody knows.

    It is known for a virtual environment that shows its own packages only: there all follows
    from its settings and its interpreter.
    """
    try:
        settings = (path / "pyvenv.cfg").read_text(encoding="utf-8")
        home = _HOME.search(settings)
        if home is None or not _SHOWS_NO_BASE.search(settings):
            return None
        # The interpreter may be a copy of the one in its home, which is found by a link.
        files = (path / "bin" / "python", Path(home[1], "python3"), interpreter_script.__file__)
        stamps = [(os.path.realpath(file), file_stamp(os.stat(file))) for file in files]
    except (OSError, UnicodeDecodeError):
        return None
    folders = sorted(map(str, path.absolute().glob("lib*/python*/site-packages")))
    return fingerprint_of(("installation", str(path.absolute()), settings, stamps, folders))


def record_paths(folder: str, info: str) -> list[str]:
    """Return the paths in the RECORD of a distribution, by its ``.dist-info`` directory.

    [] if there is none, as in packages of an operating system.
    """
    try:
        with open(os.path.join(folder, info, "RECORD"), newline="", encoding="utf-8") as file:
            return [row[0] for row in csv.reader(file) if row]
    except FileNotFoundError:
        return []


def _checked(found: Installation) -> Installation:
    if found.implementation != "cpython":
        raise SettingsError(
            f"{found.executable} is {found.implementation}: only CPython can be shipped",
            hint="use an environment of CPython, or --env node with a Python on the nodes",
        )
    return found
