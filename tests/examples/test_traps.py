"""A program that hits a known trap fails, and the diagnostics say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.conftest import JOB_S, Commands

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(JOB_S + 60)]

KERAS_3 = """\
import keras
import numpy as np
import tensorflow as tf

with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((np.zeros((64, 3)), np.zeros((64, 1))))
model.fit(data.batch(8))
"""

HDFS = """\
import os
import tensorflow as tf

tf.io.gfile.GFile(os.path.join(os.environ["DTF_OUTPUT_PATH"], "x"), "w").write("hello")
"""


@pytest.mark.parametrize(
    ("program", "words", "hint"),
    [
        pytest.param(KERAS_3, ("-r", "worker:2"), "use tf_keras", id="keras-3"),
        pytest.param(
            HDFS,
            ("-r", "worker:1", "-o", "hdfs://namenode.invalid/out", "--no_hdfs_plugin"),
            "opens hdfs:// by ytf's plugin, which this program did not have",
            id="hdfs",
        ),
    ],
)
def test_the_diagnostics_know_the_trap(
    ytf: Commands, tensorflow: str, tmp_path: Path, program: str, words: tuple[str, ...], hint: str
) -> None:
    (tmp_path / "trap.py").write_text(program)
    job = ytf.submit(
        *("--wait", "--env", tensorflow, *words, "-s", "trap.py", "python $DTF_TASK_SCRIPT"),
        check=False,
    )
    assert job.done.returncode == 1
    status = job.status()
    assert status["final_status"] == "FAILED"
    assert hint in str(status["diagnostics"])
    assert hint in job.done.stderr
