"""Train on a chief, workers and parameter servers while an evaluator judges each checkpoint.

Who is who comes from ``TF_CONFIG``. The chief writes checkpoints into the
output directory; the evaluator is no member of the training cluster, reads
them as they come and ends with the final one::

    ytf-submit --wait -r chief:1,worker:1,ps:1,evaluator:1 -o /tmp/judged \\
        -s train_and_evaluate.py 'python $DTF_TASK_SCRIPT'

Alone it judges what an earlier job left::

    ytf-submit --wait -r evaluator:1 -o /tmp/judged -s train_and_evaluate.py \\
        'python $DTF_TASK_SCRIPT'

Chief and workers end with ``FINAL <role> step=<n> loss=<x>``, the evaluator
with ``FINAL evaluator step=<n> checkpoints=<n> loss=<x>``.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

WEIGHTS = np.array([[2.0], [-1.0], [0.5]], np.float32)


def examples(seed):
    """A batch of points on a plane."""
    points = np.random.default_rng(seed).normal(size=(64, 3)).astype(np.float32)
    return points, points @ WEIGHTS


def model():
    """Placeholders, loss and global step: the same graph for training and for judging."""
    x = v1.placeholder(tf.float32, [None, 3])
    y = v1.placeholder(tf.float32, [None, 1])
    weights = v1.get_variable("weights", [3, 1], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(x @ weights - y))
    return x, y, loss, v1.train.get_or_create_global_step()


def wait_for_chief(target, config):
    """Return once the variables have values.

    A MonitoredTrainingSession waits too, but looks only every 30 seconds.
    """
    missing = v1.report_uninitialized_variables()
    with v1.Session(target, config=config) as session:
        while session.run(missing).size:
            time.sleep(0.1)


def train(config, directory, steps):
    """Take part in the training as the chief or a worker."""
    role, index = config["task"]["type"], config["task"]["index"]
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = v1.train.Server(cluster, job_name=role, task_index=index)
    if role == "ps":
        server.join()
    here = f"/job:{role}/task:{index}"
    with v1.device(v1.train.replica_device_setter(worker_device=here, cluster=cluster)):
        x, y, loss, step = model()
        optimizer = v1.train.GradientDescentOptimizer(0.02)
        fetches = [loss, step, optimizer.minimize(loss, global_step=step)]
    filters = v1.ConfigProto(device_filters=["/job:ps", here])
    if role != "chief":
        wait_for_chief(server.target, filters)
    with v1.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=role == "chief",
        checkpoint_dir=directory if role == "chief" else None,
        save_checkpoint_steps=max(1, steps // 3),
        log_step_count_steps=None,
        hooks=[v1.train.StopAtStepHook(last_step=steps)],
        config=filters,
    ) as session:
        seed, seen = index if role == "worker" else 1000, (float("nan"), steps, None)
        while not session.should_stop():
            points, values = examples(seed)
            seen = session.run(fetches, {x: points, y: values})
            seed += 10000
    print(f"FINAL {role} step={seen[1]} loss={seen[0]:.6f}", flush=True)


def evaluate(directory, steps, patience_s):
    """Judge every checkpoint until the final one has come."""
    x, y, loss, step = model()
    points, values = examples(seed=7)
    saver, judged = v1.train.Saver(), 0
    with v1.Session() as session:
        for checkpoint in tf.train.checkpoints_iterator(directory, timeout=patience_s):
            saver.restore(session, checkpoint)
            value, reached = session.run([loss, step], {x: points, y: values})
            judged += 1
            print(f"checkpoint at step {reached}: loss {value:.6f}", flush=True)
            if reached >= steps:
                print(
                    f"FINAL evaluator step={reached} checkpoints={judged} loss={value:.6f}",
                    flush=True,
                )
                return
    sys.exit(f"no checkpoint of step {steps} in {directory} within {patience_s} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--patience", type=float, default=60, help="seconds between checkpoints")
    args = parser.parse_args()
    v1.disable_eager_execution()
    config = json.loads(os.environ["TF_CONFIG"])
    directory = str(pathlib.Path(os.environ["DTF_OUTPUT_PATH"]))
    if config["task"]["type"] == "evaluator":
        evaluate(directory, args.steps, args.patience)
    else:
        train(config, directory, args.steps)


if __name__ == "__main__":
    main()
