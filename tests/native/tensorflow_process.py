"""A Python with TensorFlow and the plugin, which tests and benchmarks tell what to run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-tf" / "bin" / "python"
PYTHON_215 = ROOT / ".venv-tf215" / "bin" / "python"

TYPED_S = 120
"""What one piece of code may take on a busy machine."""

# Reads code, runs it, and tells the value of `result`, or the error.
_LOOP = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import tensorflow as tf
def write(path, data):
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)
def read(path):
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()
names = {"tf": tf, "g": tf.io.gfile, "v1": tf.compat.v1, "write": write, "read": read}
for line in sys.stdin:
    names["result"] = None
    try:
        exec(json.loads(line), names)
        told = {"result": names["result"]}
    except Exception as exc:
        told = {"error": type(exc).__name__, "text": str(exc)}
    out.write(json.dumps(told) + "\\n")
    out.flush()
"""


class TensorFlowError(Exception):
    """What a piece of code raised in the other process: ``kind`` is the class of its error."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def plugin_directory() -> Path:
    """Where the plugin is that ``scripts/environment hdfs`` has built."""
    found = importlib.util.find_spec("ytf_tensorflow_hdfs")
    assert found is not None, "scripts/environment hdfs builds and installs the plugin"
    assert found.origin is not None
    return Path(found.origin).parent / "tensorflow-plugins"


class TensorFlowProcess:
    """A Python with TensorFlow and the plugin that runs one piece of code after the other.

    The code knows ``tf``, ``g`` (``tf.io.gfile``), ``v1``, ``write(path, data)``
    and ``read(path)``, and what earlier pieces have defined.
    """

    def __init__(self, environ: dict[str, str], python: Path = PYTHON) -> None:
        self.process = subprocess.Popen(
            [python, "-c", _LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **environ,
                "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(plugin_directory()),
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUDA_VISIBLE_DEVICES": "",
            },
        )

    def start(self, code: str) -> None:
        """Let it run a piece of code, and do not wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def finish(self) -> Any:
        """The value of ``result`` after the code that was started; raises ``TensorFlowError``."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the process ended with {self.process.wait(TYPED_S)}"
        told = json.loads(line)
        if "error" in told:
            raise TensorFlowError(told["error"], told["text"])
        return told["result"]

    def run(self, code: str) -> Any:
        """Run a piece of code to its end."""
        self.start(code)
        return self.finish()

    def end(self) -> int:
        """Let it exit by itself; returns its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(TYPED_S)
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.end()
