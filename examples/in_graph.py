"""In-graph training: one client places a whole graph on servers that ytf runs.

``--servers`` gives every task a stock TensorFlow server, ``--client`` runs
this program here, at your terminal. It keeps the variables on the parameter
servers, gives each worker a slice of the batch and applies the mean of their
gradients::

    ytf-submit --servers --client --wait -r ps:1,worker:2 'python in_graph.py'

It ends with ``FINAL step=<n> loss=<x> error=<x>``, where ``error`` is how far
the weights are from those that made the data.
"""

import os

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

FEATURES, BATCH, STEPS = 4, 64, 200
WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def build(servers, workers):
    """The graph of the whole cluster: placeholders and fetches for a session."""
    x = v1.placeholder(tf.float32, [BATCH, FEATURES])
    y = v1.placeholder(tf.float32, [BATCH])
    with v1.device(v1.train.replica_device_setter(ps_tasks=servers, worker_device="/job:worker")):
        weights = v1.get_variable("weights", [FEATURES], initializer=v1.zeros_initializer())
    losses, gradients = [], []
    for index, (part, wanted) in enumerate(
        zip(tf.split(x, workers), tf.split(y, workers), strict=True)
    ):
        with v1.device(f"/job:worker/task:{index}"):
            loss = tf.reduce_mean(tf.square(tf.linalg.matvec(part, weights) - wanted))
            gradients.append(v1.gradients(loss, weights)[0])
            losses.append(loss)
    with v1.device("/job:ps/task:0"):
        train = weights.assign_sub(0.1 * tf.add_n(gradients) / workers)
        loss = tf.add_n(losses) / workers
    return x, y, {"train": train, "loss": loss, "weights": weights.read_value()}


def main():
    v1.disable_eager_execution()
    workers = os.environ["DTF_WORKER_HOSTS"].split(",")
    servers = os.environ["DTF_PS_HOSTS"].split(",")
    x, y, fetches = build(len(servers), len(workers))
    rng = np.random.default_rng(0)
    with v1.Session(f"grpc://{workers[0]}") as session:
        session.run(v1.global_variables_initializer())
        for step in range(1, STEPS + 1):
            points = rng.normal(size=(BATCH, FEATURES)).astype(np.float32)
            seen = session.run(fetches, {x: points, y: points @ WEIGHTS})
            if step % (STEPS // 5) == 0:
                print(f"step {step} loss {seen['loss']:.6f}", flush=True)
    error = float(np.abs(seen["weights"] - WEIGHTS).max())
    print(f"FINAL step={STEPS} loss={seen['loss']:.6f} error={error:.6f}")


if __name__ == "__main__":
    main()
