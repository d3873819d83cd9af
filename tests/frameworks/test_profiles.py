"""Every framework has a profile whose values a starter understands."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ytf.frameworks import tensorflow
from ytf.frameworks.api import PortPolicy
from ytf.frameworks.profiles import profile
from ytf.specs.job import Framework


@pytest.mark.parametrize("framework", Framework)
def test_every_framework_has_a_profile(framework: Framework) -> None:
    found = profile(framework)
    assert found.name == framework.value
    assert found.variables in ("tensorflow", "none")


def test_tensorflow_binds_a_port_that_the_starter_holds() -> None:
    found = profile(Framework.TENSORFLOW)
    assert found.port is PortPolicy.HOLD
    assert found.defaults(1)["TF_GRPC_REUSE_PORT"] == "1"


def test_other_programs_get_their_port_free() -> None:
    found = profile(Framework.NONE)
    assert found.port is PortPolicy.RELEASE
    assert found.variables == "none"


def test_threads_follow_the_vcores() -> None:
    four = profile(Framework.TENSORFLOW).defaults(4)
    assert four["OMP_NUM_THREADS"] == "4"
    assert four["TF_NUM_INTRAOP_THREADS"] == "4"
    assert four["TF_NUM_INTEROP_THREADS"] == "4"
    assert profile(Framework.NONE).defaults(4) == {"OMP_NUM_THREADS": "4"}


def test_tensorflow_never_gets_a_single_inter_op_thread() -> None:
    one = profile(Framework.TENSORFLOW).defaults(1)
    assert one["TF_NUM_INTRAOP_THREADS"] == "1"
    assert one["TF_NUM_INTEROP_THREADS"] == "2"


def test_the_server_program_needs_nothing_of_ytf() -> None:
    tree = ast.parse(tensorflow.server_file().read_text())
    imported = {
        name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
    assert imported <= sys.stdlib_module_names


FAKE_TENSORFLOW = """\
import types

class Server:
    def __init__(self, cluster, job_name, task_index):
        self.where = cluster[job_name][task_index]
    def join(self):
        print("joined", self.where)

train = types.SimpleNamespace(ClusterSpec=dict)
compat = types.SimpleNamespace(v1=types.SimpleNamespace(train=types.SimpleNamespace(Server=Server)))
"""


def serve(folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(tensorflow.server_file(), folder / tensorflow.SERVER_NAME)
    (folder / "tensorflow.py").write_text(FAKE_TENSORFLOW)
    python = Path(sys.executable).parent
    return subprocess.run(
        ["bash", "-c", tensorflow.server_command()],
        cwd=folder,
        env={"PATH": f"{python}:/usr/bin:/bin", "TF_CONFIG": config},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_the_server_serves_the_task_it_is(tmp_path: Path) -> None:
    done = serve(
        tmp_path,
        '{"cluster": {"ps": ["a:1"], "worker": ["b:2", "c:3"]},'
        ' "task": {"type": "worker", "index": 1}}',
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["worker:1 serves at c:3", "joined c:3"]


def test_a_task_outside_the_cluster_cannot_serve(tmp_path: Path) -> None:
    done = serve(
        tmp_path, '{"cluster": {"ps": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'
    )
    assert done.returncode == 1
    assert "evaluator:0 is not in the training cluster" in done.stderr
