"""One set of messages on every protobuf a user may have, and beside TensorFlow.

The environments are made once below ``.cache``; the newest protobuf is the one
that all other tests run on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROBE = Path(__file__).with_name("probe.py")
VERSIONS = ("3.20.3", "4.25.8", "5.29.5", "6.33.0")


def python_with(version: str) -> Path:
    """An interpreter with just this protobuf, made if it is not there yet."""
    place = ROOT / ".cache" / "protobuf" / version
    python = place / "bin" / "python"
    if (place / ".whole").exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
    uv = ROOT / ".cache/uv/bin/uv"
    assert uv.exists(), f"{uv} is not there: scripts/environment makes it"
    run(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, place)
    run(uv, "pip", "install", "--quiet", "--python", python, f"protobuf=={version}")
    (place / ".whole").touch()
    return python


def run(*command: str | Path, **environ: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def probe(python: Path, *arguments: str, **environ: str) -> str:
    return run(
        python, "-W", "error", PROBE, *arguments, PYTHONPATH=str(ROOT / "src"), **environ
    ).splitlines()[-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_older_protobufs(version: str) -> None:
    assert probe(python_with(version)) == version


def test_the_runtime_in_pure_python() -> None:
    assert probe(Path(sys.executable), PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")


@pytest.mark.tensorflow
def test_beside_tensorflow() -> None:
    python = ROOT / ".venv-tf/bin/python"
    assert python.exists(), f"{python} is not there: scripts/environment makes it"
    done = run(python, PROBE, "tensorflow", PYTHONPATH=str(ROOT / "src"))
    assert done.splitlines()[-1][0].isdigit()
