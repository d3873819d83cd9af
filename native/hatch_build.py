"""Builds the plugin with cargo when a wheel is made.

With ``YTF_ZIG=1`` the library is linked by zig (``scripts/wheel`` installs it) against
the glibc of manylinux2014, so that the wheel works on every Linux from 2014 on;
otherwise against the glibc of this machine.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libytf_tensorflow_hdfs.so"
GLIBC = "2.17"


def check_glibc(library: Path) -> None:
    """Refuse a library that needs a newer glibc than its wheel says."""
    named = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", library.read_bytes())
    major, minor = GLIBC.split(".")
    newest = max((int(a), int(b)) for a, b in named)
    if newest > (int(major), int(minor)):
        raise SystemExit(f"{library} needs glibc {newest[0]}.{newest[1]}, newer than {GLIBC}")


class CargoBuildHook(BuildHookInterface):
    """Puts the built library into the wheel, and says on which machines that wheel works."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if shutil.which("cargo") is None:
            raise SystemExit(
                "ytf-tensorflow-hdfs is written in Rust, and there is no cargo here: install Rust "
                "(rustup, or your distribution's package cargo, 1.88 or newer), or install a wheel "
                "that scripts/wheel has made on another machine"
            )
        machine = platform.machine()
        target = f"{machine}-unknown-linux-gnu"
        output = Path(os.environ.get("CARGO_TARGET_DIR") or Path(self.root, "target"))
        if os.environ.get("YTF_ZIG"):
            build, triple = ["zigbuild", "--target", f"{target}.{GLIBC}"], target
            tag = f"manylinux2014_{machine}"
        else:
            build, triple = ["build"], ""
            tag = f"linux_{machine}"
        subprocess.run(["cargo", *build, "--release"], cwd=self.root, check=True)
        built = output / triple / "release" / LIBRARY
        if os.environ.get("YTF_ZIG"):
            check_glibc(built)
        build_data["force_include"][str(built)] = (
            f"ytf_tensorflow_hdfs/tensorflow-plugins/{LIBRARY}"
        )
        build_data["tag"] = f"py3-none-{tag}"
        build_data["pure_python"] = False
