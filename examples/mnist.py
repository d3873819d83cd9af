"""Digits, trained by workers that share parameter servers.

The data are images and labels in ``<data_dir>/train.npz``; checkpoints and
summaries go to ``<train_dir>``. Either may be a directory that every node sees,
or in HDFS::

    python mnist.py --make_data data
    hdfs dfs -mkdir -p /user/me/mnist
    hdfs dfs -put data /user/me/mnist/data
    ytf-submit --wait --env current -r ps:1,worker:2 --tensorboard \\
        -i hdfs:///user/me/mnist/data -o hdfs:///user/me/mnist/train -s mnist.py \\
        'python $DTF_TASK_SCRIPT --job_name $DTF_TASK_JOB_NAME --task_index $DTF_TASK_INDEX \\
         --ps_hosts $DTF_PS_HOSTS --worker_hosts $DTF_WORKER_HOSTS \\
         --data_dir $DTF_INPUT_PATH --train_dir $DTF_OUTPUT_PATH'

Each worker ends with ``FINAL worker=<index> step=<n> loss=<x> accuracy=<x>``.
The digits are made, not written by hand, and easy: the accuracy comes to 1.
"""

import argparse
import os
import time

import numpy as np

SIDE, DIGITS = 8, 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ps_hosts", help="host:port,host:port,...")
    parser.add_argument("--worker_hosts", help="host:port,host:port,...")
    parser.add_argument("--job_name", choices=["ps", "worker"])
    parser.add_argument("--task_index", type=int)
    parser.add_argument("--data_dir", help="where train.npz is")
    parser.add_argument("--train_dir", help="where checkpoints and summaries go")
    parser.add_argument("--steps", type=int, default=500, help="steps of each worker")
    parser.add_argument("--make_data", metavar="DIR", help="make train.npz on this disk, and end")
    return parser.parse_args()


def make_data(folder):
    """Ten shapes, each of them a few hundred times with noise."""
    rng = np.random.default_rng(7)
    shapes = rng.uniform(0, 1, (DIGITS, SIDE * SIDE)) > 0.5
    labels = rng.integers(0, DIGITS, 2000)
    images = shapes[labels] + rng.normal(0, 0.3, (len(labels), SIDE * SIDE))
    os.makedirs(folder, exist_ok=True)
    np.savez(os.path.join(folder, "train.npz"), images=images.astype(np.float32), labels=labels)


def read_data(tf, folder):
    """The images and labels."""
    with tf.io.gfile.GFile(f"{folder}/train.npz", "rb") as file, np.load(file) as data:
        return data["images"], data["labels"]


def build(tf, cluster, index):
    """The graph of one worker: variables on the ps, everything else here."""
    v1 = tf.compat.v1
    with v1.device(
        v1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)
    ):
        images = v1.placeholder(tf.float32, [None, SIDE * SIDE])
        labels = v1.placeholder(tf.int64, [None])
        weights = v1.get_variable("weights", [SIDE * SIDE, DIGITS])
        biases = v1.get_variable("biases", [DIGITS])
        logits = tf.matmul(images, weights) + biases
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        right = tf.equal(tf.argmax(logits, 1), labels)
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        v1.summary.scalar("loss", loss)
    return images, labels, {"train": train, "loss": loss, "step": step, "accuracy": accuracy}


def train(tf, server, cluster, args):
    """Run this worker's steps and say where they led."""
    v1 = tf.compat.v1
    all_images, all_labels = read_data(tf, args.data_dir)
    images, labels, fetches = build(tf, cluster, args.task_index)
    rng = np.random.default_rng(args.task_index)
    is_chief = args.task_index == 0
    # Without the filters a session waits for every worker, even for one that is done.
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{args.task_index}"])
    if not is_chief:
        # A MonitoredTrainingSession waits too, but looks only every 30 seconds.
        missing = v1.report_uninitialized_variables()
        with v1.Session(server.target, config=config) as session:
            while session.run(missing).size:
                time.sleep(0.1)
    # By default each ps would write its own part, in a directory of its own node.
    with v1.device(f"/job:worker/task:{args.task_index}"):
        scaffold = v1.train.Scaffold(saver=v1.train.Saver())
    with v1.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=is_chief,
        scaffold=scaffold,
        checkpoint_dir=args.train_dir if is_chief else None,
        save_summaries_steps=20,
        log_step_count_steps=None,
        config=config,
    ) as session:
        for done in range(1, args.steps + 1):
            some = rng.integers(0, len(all_labels), 64)
            seen = session.run(fetches, {images: all_images[some], labels: all_labels[some]})
            if done % max(1, args.steps // 20) == 0:
                if is_chief:
                    # For TensorBoard; by itself it would do so every two minutes.
                    v1.summary.FileWriterCache.get(args.train_dir).flush()
                print(f"step {seen['step']} loss {seen['loss']:.4f}", flush=True)
    print(
        f"FINAL worker={args.task_index} step={seen['step']} loss={seen['loss']:.4f} "
        f"accuracy={seen['accuracy']:.3f}",
        flush=True,
    )


def main():
    args = arguments()
    if args.make_data:
        make_data(args.make_data)
        return
    import tensorflow as tf  # only now: it takes seconds

    tf.compat.v1.disable_eager_execution()
    cluster = tf.train.ClusterSpec(
        {"ps": args.ps_hosts.split(","), "worker": args.worker_hosts.split(",")}
    )
    server = tf.compat.v1.train.Server(cluster, job_name=args.job_name, task_index=args.task_index)
    if args.job_name == "ps":
        server.join()
    else:
        train(tf, server, cluster, args)


if __name__ == "__main__":
    main()
