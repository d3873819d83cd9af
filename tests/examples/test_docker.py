"""Real TensorFlow trains in containers of an image that the test makes.

The image has a Python and the C libraries that it and TensorFlow need, of this
machine. TensorFlow's own 1.4 GB are the job's input path, which is mounted: to
copy them into an image, and from there into each container, would take longer
than the training.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import engine as engines
from tests.engine import Engine
from tests.examples.conftest import EXAMPLES, JOB_S, Commands, Job

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(2 * JOB_S)]

IMAGE = "localhost/ytf-python:1"
_LEFT_OUT = ("test", "tests", "site-packages", "idlelib", "ensurepip", "__pycache__", "config-*")
_MORE_LIBRARIES = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libnss_files.so.2", "libresolv.so.2"),
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
)
"""What TensorFlow's wheels expect of every machine, besides what Python itself needs."""
_COMMAND = (
    "$DTF_INPUT_PATH/bin/python $DTF_TASK_SCRIPT --job_name $DTF_TASK_JOB_NAME "
    "--task_index $DTF_TASK_INDEX --ps_hosts $DTF_PS_HOSTS --worker_hosts $DTF_WORKER_HOSTS "
    "--train_dir $DTF_OUTPUT_PATH"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


def add_python(root: Path, python: Path) -> None:
    """Copy an interpreter, its library and what both are linked with, under their own paths."""
    prefix = python.parents[1]
    (version,) = [each for each in (prefix / "lib").glob("python3.*") if each.is_dir()]
    here = root / prefix.relative_to("/")
    shutil.copytree(version, here / "lib" / version.name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (here / "bin").mkdir()
    shutil.copy(python, here / "bin" / python.name)
    for name in ("python", "python3"):
        (here / "bin" / name).symlink_to(python.name)
    more = [
        found for name in _MORE_LIBRARIES for found in Path("/usr/lib").glob(f"*-linux-gnu/{name}")
    ]
    modules = [python, *more, *(version / "lib-dynload").glob("*.so")]
    for library in {*more, *(each for module in modules for each in linked_with(module))}:
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def linked_with(module: Path) -> set[Path]:
    """The libraries that the loader finds for a module."""
    told = subprocess.run(["ldd", str(module)], capture_output=True, text=True, check=True).stdout
    words = (word for line in told.splitlines() for word in line.split())
    return {Path(word) for word in words if word.startswith("/") and Path(word).is_file()}


def test_between_graph_in_an_image(
    ytf: Commands, tensorflow: str, engine: Engine, tmp_path: Path
) -> None:
    environment = Path(tensorflow).resolve()
    root = engine.folder / "root"
    add_python(root, (environment / "bin" / "python").resolve())
    engine.make_image(root, IMAGE, PATH="/bin")
    spec = {
        "groups": {"ps": {"count": 1}, "worker": {"count": 1}},
        "command": _COMMAND,
        "script": str(EXAMPLES / "between_graph.py"),
        "input": str(environment),
        "output": str(tmp_path / "out"),
        "docker_image": IMAGE,
        "docker": {"engine": "podman", "engine_env": engine.settings},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(spec))
    done = ytf.run("ytf", "submit", "job.yaml", "--wait")
    ends = Job(ytf, ytf.jobs[-1], done).finals("worker")
    assert {end["worker"] for end in ends} == {"0"}
    for end in ends:
        assert float(end["loss"]) < 0.05
        assert float(end["slope"]) == pytest.approx(3, abs=0.1)
    assert any(path.name.startswith("model.ckpt") for path in (tmp_path / "out").iterdir())
    engine.wait_empty()
