"""Between-graph training, the classic way: addresses on the command line, one graph per worker.

Every worker builds the same graph, keeps the variables on the parameter
servers and trains at its own pace; worker 0 looks after initialisation,
checkpoints and summaries. The model is a line through noisy points::

    ytf-submit --wait -r ps:1,worker:2 -o /tmp/line -s between_graph.py \\
        'python $DTF_TASK_SCRIPT --job_name $DTF_TASK_JOB_NAME --task_index $DTF_TASK_INDEX \\
         --ps_hosts $DTF_PS_HOSTS --worker_hosts $DTF_WORKER_HOSTS --train_dir $DTF_OUTPUT_PATH'

Each worker ends with ``FINAL worker=<index> step=<n> loss=<x> slope=<x> offset=<x>``;
the slope comes to 3 and the offset to 2.
"""

import argparse
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

SLOPE, OFFSET, NOISE = 3.0, 2.0, 0.1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ps_hosts", required=True, help="host:port,host:port,...")
    parser.add_argument("--worker_hosts", required=True, help="host:port,host:port,...")
    parser.add_argument("--job_name", required=True, choices=["ps", "worker"])
    parser.add_argument("--task_index", required=True, type=int)
    parser.add_argument("--train_dir", help="where checkpoints and summaries go")
    parser.add_argument("--steps", type=int, default=300, help="steps of each worker")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    return parser.parse_args()


def build(cluster, index, rate):
    """The graph of one worker: variables on the ps, everything else here."""
    with v1.device(
        v1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)
    ):
        x = v1.placeholder(tf.float32, [None])
        y = v1.placeholder(tf.float32, [None])
        slope = v1.get_variable("slope", initializer=0.0)
        offset = v1.get_variable("offset", initializer=0.0)
        loss = tf.reduce_mean(tf.square(slope * x + offset - y))
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
        v1.summary.scalar("loss", loss)
        v1.summary.scalar("slope", slope)
    return x, y, {"train": train, "loss": loss, "step": step, "slope": slope, "offset": offset}


def wait_for_chief(target, config):
    """Return once the variables have values.

    A MonitoredTrainingSession waits too, but looks only every 30 seconds.
    """
    missing = v1.report_uninitialized_variables()
    with v1.Session(target, config=config) as session:
        while session.run(missing).size:
            time.sleep(0.1)


def train(server, cluster, args):
    """Run this worker's steps and say where they led."""
    x, y, fetches = build(cluster, args.task_index, args.rate)
    rng = np.random.default_rng(args.task_index)
    # Without the filters a session waits for every worker, even for one that
    # has already done its steps and is gone.
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{args.task_index}"])
    if args.task_index != 0:
        wait_for_chief(server.target, config)
    with v1.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=args.task_index == 0,
        checkpoint_dir=args.train_dir,
        save_summaries_steps=10,
        log_step_count_steps=None,
        config=config,
    ) as session:
        for done in range(1, args.steps + 1):
            points = rng.uniform(-1, 1, 64)
            values = SLOPE * points + OFFSET + rng.normal(0, NOISE, 64)
            seen = session.run(fetches, {x: points, y: values})
            if done == 1 or done % max(1, args.steps // 10) == 0:
                print(f"step {seen['step']} loss {seen['loss']:.4f}", flush=True)
    print(
        f"FINAL worker={args.task_index} step={seen['step']} loss={seen['loss']:.4f} "
        f"slope={seen['slope']:.4f} offset={seen['offset']:.4f}",
        flush=True,
    )


def main():
    args = arguments()
    v1.disable_eager_execution()
    cluster = tf.train.ClusterSpec(
        {"ps": args.ps_hosts.split(","), "worker": args.worker_hosts.split(",")}
    )
    server = v1.train.Server(cluster, job_name=args.job_name, task_index=args.task_index)
    if args.job_name == "ps":
        server.join()
    else:
        train(server, cluster, args)


if __name__ == "__main__":
    main()
