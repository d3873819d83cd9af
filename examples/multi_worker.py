"""MultiWorkerMirroredStrategy with tf_keras ``fit``: synchronous, and able to resume.

Every worker computes each step together with the others; a worker that dies
ends it for all. With ``restart-job`` ytf starts everyone again,
and ``BackupAndRestore`` takes up the training where the last epoch ended::

    ytf-submit --wait -r worker:2 --on_failure restart-job -o /tmp/plane \\
        -s multi_worker.py 'python $DTF_TASK_SCRIPT --crash_at_epoch 3'

Keras 3 does not know this strategy, hence tf_keras. Each worker ends with
``FINAL worker=<index> generation=<n> epochs=<run here> loss=<x> error=<x>``.
``--crash_at_epoch N`` makes worker 1 fail there once, to see a restart.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np
import tensorflow as tf
import tf_keras as keras

EPOCHS, STEPS, BATCH = 6, 20, 64
WEIGHTS = np.array([[1.0], [-2.0], [0.5]], np.float32)


class Crash(keras.callbacks.Callback):
    """Ends this process like a bug would, unless ``mark`` says that it did so before."""

    def __init__(self, epoch, mark):
        super().__init__()
        self.epoch = epoch
        self.mark = mark

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch and not self.mark.exists():
            self.mark.touch()
            print(f"crashing at epoch {epoch}, as asked", file=sys.stderr, flush=True)
            os._exit(3)


def batches():
    """Points and their place on a plane, the same in every epoch."""
    points = np.random.default_rng(0).normal(size=(STEPS * BATCH, 3)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((points, points @ WEIGHTS))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.batch(BATCH).with_options(options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crash_at_epoch", type=int, help="worker 1 fails there, once")
    args = parser.parse_args()
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    generation = int(os.environ.get("YTF_GENERATION", "0"))
    output = pathlib.Path(os.environ["DTF_OUTPUT_PATH"])

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
        model.compile(keras.optimizers.SGD(0.02), "mse")
    callbacks = [keras.callbacks.BackupAndRestore(str(output / "backup"))]
    if args.crash_at_epoch is not None and index == 1:
        callbacks.append(Crash(args.crash_at_epoch, output / "crashed"))
    history = model.fit(
        batches(), epochs=EPOCHS, callbacks=callbacks, verbose=2 if index == 0 else 0
    )
    error = float(np.abs(model.get_weights()[0] - WEIGHTS).max())
    print(
        f"FINAL worker={index} generation={generation} epochs={len(history.epoch)} "
        f"loss={history.history['loss'][-1]:.6f} error={error:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
