"""A Python on this machine: the one that runs, or the one of a path the user named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.packaging import probe
from ytf.packaging.layers import Bytecode


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parts of an environment lie, and of its interpreter."""

    executable: str
    base_executable: str
    """The interpreter itself, behind the links of a virtual environment."""
    implementation: str
    version: str
    prefix: str
    base_prefix: str
    stdlib: str
    site_folders: tuple[str, ...]
    """Directories of installed packages; the first wins."""
    scripts: str
    library: str
    """libpython, if the interpreter is linked with it."""
    tag: str
    magic: str

    @property
    def is_virtual(self) -> bool:
        """Whether it is a virtual environment: a directory with nothing but packages."""
        return self.prefix != self.base_prefix

    @property
    def is_conda(self) -> bool:
        """Whether conda made it: then libraries and programs belong to it as well."""
        return os.path.isdir(os.path.join(self.base_prefix, "conda-meta"))

    @property
    def packages(self) -> str:
        """Where packages lie in the environment as it is put together."""
        return f"lib/python{self.version}/site-packages"

    @property
    def bytecode(self) -> Bytecode | None:
        """For whom its modules are compiled."""
        if not self.tag:
            return None
        return Bytecode(python=self.executable, tag=self.tag, magic=self.magic)


def current() -> Installation:
    """The Python that runs this very program."""
    return _checked(msgspec.convert(probe.probe(), Installation))


def at(path: Path) -> Installation:
    """The Python at a path: a virtual or conda environment, or an interpreter.

    Raises ``SettingsError`` if there is none, or none that can be shipped.
    """
    python = path / "bin" / "python" if path.is_dir() else path
    if not os.access(python, os.X_OK):
        raise SettingsError(
            f"there is no Python environment at {path}: {python} cannot be run",
            hint="name the directory of a venv or conda environment, or its bin/python",
        )
    # -E and -s, not -I: this is about its own packages, whatever the user's variables say.
    done = subprocess.run(
        [str(python.absolute()), "-E", "-s", probe.__file__],
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
        return _checked(msgspec.json.decode(done.stdout, type=Installation))
    except msgspec.DecodeError as exc:
        raise SettingsError(
            f"{python} does not answer as a Python does",
            hint="name the directory of a venv or conda environment, or its bin/python",
        ) from exc


def _checked(found: Installation) -> Installation:
    if found.implementation != "cpython":
        raise SettingsError(
            f"{found.executable} is {found.implementation}: only CPython can be shipped",
            hint="use an environment of CPython, or --env node with a Python on the nodes",
        )
    return found
