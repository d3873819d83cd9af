"""Each framework is one file; what it says is understood by the master and by starters."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ytf.frameworks import tensorflow
from ytf.frameworks.api import (
    HOLD,
    RELEASE,
    SERVE_HOROVOD,
    TaskContext,
    UnknownFrameworkError,
    by_name,
    names,
)
from ytf.specs.job import Framework

FRAMEWORKS = [framework for framework in Framework if framework is not Framework.AUTO]


def test_every_framework_that_a_job_may_name_has_a_file_and_no_other_has() -> None:
    assert names() == sorted(framework.value for framework in FRAMEWORKS)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_has_a_profile(framework: Framework) -> None:
    found = by_name(framework.value)
    assert found.port_policy in (HOLD, RELEASE, SERVE_HOROVOD)
    assert all(value for value in found.defaults(1).values())


@pytest.mark.parametrize(
    "name", ["", "auto", "api", "hints", "ranks", "__init__", "shipped", "../x", "keras"]
)
def test_what_is_no_framework_is_told_with_those_there_are(name: str) -> None:
    with pytest.raises(
        UnknownFrameworkError, match=r"there is no framework .*none, pytorch, tensorflow"
    ):
        by_name(name)


def test_a_starter_loads_the_file_of_one_framework_only() -> None:
    code = (
        "import sys; from ytf.frameworks.api import by_name; by_name('none'); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "ytf.frameworks.none" in done
    assert "ytf.frameworks.tensorflow" not in done
    assert "ytf.frameworks.hints" not in done


def test_tensorflow_binds_a_port_that_the_starter_holds() -> None:
    found = by_name("tensorflow")
    assert found.port_policy == HOLD
    assert found.defaults(1)["TF_GRPC_REUSE_PORT"] == "1"


def test_other_programs_get_their_port_free_and_no_variables_of_a_framework() -> None:
    found = by_name("none")
    assert found.port_policy == RELEASE
    task = TaskContext(
        job="j",
        container="c",
        group="ps",
        index=0,
        attempt=1,
        generation=1,
        host="h",
        port=1,
        port_is_held=False,
    )
    assert found.variables(task, {"ps": ["h:1"]}) == {}
    assert json.loads(by_name("tensorflow").variables(task, {"ps": ["h:1"]})["TF_CONFIG"])


def test_threads_follow_the_vcores() -> None:
    four = by_name("tensorflow").defaults(4)
    assert four["OMP_NUM_THREADS"] == "4"
    assert four["TF_NUM_INTRAOP_THREADS"] == "4"
    assert four["TF_NUM_INTEROP_THREADS"] == "4"
    assert by_name("none").defaults(4) == {"OMP_NUM_THREADS": "4"}


def test_tensorflow_never_gets_a_single_inter_op_thread() -> None:
    one = by_name("tensorflow").defaults(1)
    assert one["TF_NUM_INTRAOP_THREADS"] == "1"
    assert one["TF_NUM_INTEROP_THREADS"] == "2"


def test_the_server_program_needs_nothing_of_ytf() -> None:
    tree = ast.parse(Path(tensorflow.SERVER_FILE).read_text())
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
    shutil.copy(tensorflow.SERVER_FILE, folder / tensorflow.SERVER_NAME)
    (folder / "tensorflow.py").write_text(FAKE_TENSORFLOW)
    python = Path(sys.executable).parent
    return subprocess.run(
        ["bash", "-c", tensorflow.SERVER_COMMAND],
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
