"""Real TensorFlow trains in containers of an image that the test makes.

TensorFlow's own 1.4 GB are the job's input path, which is mounted: to copy them
into an image, and from there into each container, would take longer than the
training.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import engine as engines
from tests.engine import Engine
from tests.examples.conftest import EXAMPLES, JOB_S, Commands, Job

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(2 * JOB_S)]

_COMMAND = (
    "$DTF_INPUT_PATH/bin/python $DTF_TASK_SCRIPT --job_name $DTF_TASK_JOB_NAME "
    "--task_index $DTF_TASK_INDEX --ps_hosts $DTF_PS_HOSTS --worker_hosts $DTF_WORKER_HOSTS "
    "--train_dir $DTF_OUTPUT_PATH"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


def test_between_graph_in_an_image(
    ytf: Commands, tensorflow: str, engine: Engine, tmp_path: Path
) -> None:
    environment = Path(tensorflow).resolve()
    engine.make_python_image(environment)
    spec = {
        "groups": {"ps": {"count": 1}, "worker": {"count": 1}},
        "command": _COMMAND,
        "script": str(EXAMPLES / "between_graph.py"),
        "input": str(environment),
        "output": str(tmp_path / "out"),
        "docker_image": engines.PYTHON_IMAGE,
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
