"""Virtual environments written file by file, without an installer."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from ytf.packaging import installation
from ytf.packaging.installation import Installation

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"


class Venv:
    """A virtual environment into which distributions are written file by file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages = root / "lib" / PYTHON / "site-packages"
        self.packages.mkdir(parents=True)
        base = installation.current()
        for name in ("python", "python3", PYTHON):
            self.write(f"bin/{name}").unlink()
            (root / "bin" / name).symlink_to(base.base_executable)
        self.write("bin/activate", b"VIRTUAL_ENV=...\n")
        home = Path(base.base_executable).parent
        settings = f"home = {home}\ninclude-system-site-packages = false\n"
        self.write("pyvenv.cfg", settings.encode())
        (root / "lib64").symlink_to("lib")

    @property
    def installation(self) -> Installation:
        """Its facts, without running it."""
        return msgspec.structs.replace(
            installation.current(),
            executable=str(self.root / "bin/python"),
            prefix=str(self.root),
            site_folders=(str(self.packages),),
            scripts=str(self.root / "bin"),
        )

    def write(self, path: str, data: bytes = b"", executable: bool = False) -> Path:
        """A file below the environment."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o755 if executable else 0o644)
        return place

    def install(self, name: str, files: dict[str, bytes], version: str = "1.0") -> None:
        """A distribution; paths are relative to the packages, ``bin/…`` to the environment."""
        info = f"{name}-{version}.dist-info"
        files = {**files, f"{info}/METADATA": f"Name: {name}\n".encode()}
        listed = []
        for path, data in files.items():
            if path.startswith("bin/"):
                self.write(path, data, executable=True)
                listed.append(f"../../../{path}")
            else:
                self.write(f"lib/{PYTHON}/site-packages/{path}", data)
                listed.append(path)
        lines = "".join(f'"{path}",,\n' for path in [*listed, f"{info}/RECORD"])
        (self.packages / info / "RECORD").write_text(lines)

    def script(self, call: str) -> bytes:
        """A program as installers write it, with a fixed path in its first line."""
        return f"#!{self.root}/bin/python\nimport sys\n{call}\n".encode()
