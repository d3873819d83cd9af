"""The plugin's own tests pass, and without Rust its build says what is missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.tensorflow


@pytest.mark.timeout(600)
def test_the_crates_own_tests() -> None:
    target = ROOT / ".cache" / "hdfs-plugin" / "target"
    done = subprocess.run(
        ["cargo", "test", "--release", "--quiet"],
        cwd=ROOT / "native",
        env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_cargo_the_build_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = subprocess.run(
        [ROOT / ".cache/uv/bin/uv", "build", "--wheel", "--out-dir", tmp_path / "out",
         "--python", ROOT / ".venv/bin/python", "-b", ROOT / "constraints.txt", ROOT / "native"],
        env={**os.environ, "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "there is no cargo here: install Rust" in done.stderr
    assert "or install a wheel" in done.stderr
