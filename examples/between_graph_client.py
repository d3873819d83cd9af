"""Between-graph training by clients of servers that ytf runs: one client for each worker.

``--servers`` gives every task a stock TensorFlow server that stays up; each client
builds its own graph, keeps the variables on the parameter servers and computes on
the worker whose index it has. Nothing here starts a server, so clients come and go,
from any machine that reaches the cluster::

    ytf-submit --servers -r ps:1,worker:2
    ytf attach @last --index 0 'python between_graph_client.py' &
    ytf attach @last --index 1 'python between_graph_client.py'

Client 0 initialises the variables. Each ends with ``FINAL worker=<index> step=<n>
loss=<x> slope=<x> offset=<x>``; the slope comes to 3 and the offset to 2.
"""

import os
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

SLOPE, OFFSET, NOISE, STEPS, RATE = 3.0, 2.0, 0.1, 300, 0.05


def build(servers, index):
    """The graph of one client: variables on the ps, everything else on its worker."""
    with v1.device(
        v1.train.replica_device_setter(ps_tasks=servers, worker_device=f"/job:worker/task:{index}")
    ):
        x = v1.placeholder(tf.float32, [None])
        y = v1.placeholder(tf.float32, [None])
        slope = v1.get_variable("slope", initializer=0.0)
        offset = v1.get_variable("offset", initializer=0.0)
        loss = tf.reduce_mean(tf.square(slope * x + offset - y))
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(RATE).minimize(loss, global_step=step)
    return x, y, {"train": train, "loss": loss, "step": step, "slope": slope, "offset": offset}


def main():
    v1.disable_eager_execution()
    index = int(os.environ["DTF_TASK_INDEX"])
    workers = os.environ["DTF_WORKER_HOSTS"].split(",")
    servers = os.environ["DTF_PS_HOSTS"].split(",")
    x, y, fetches = build(len(servers), index)
    rng = np.random.default_rng(index)
    # Without the filters a session waits for all workers, also for one that is restarted.
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    with v1.Session(f"grpc://{workers[index]}", config=config) as session:
        if index == 0:
            session.run(v1.global_variables_initializer())
        missing = v1.report_uninitialized_variables()
        while session.run(missing).size:
            time.sleep(0.1)
        for done in range(1, STEPS + 1):
            points = rng.uniform(-1, 1, 64)
            values = SLOPE * points + OFFSET + rng.normal(0, NOISE, 64)
            seen = session.run(fetches, {x: points, y: values})
            if done % (STEPS // 5) == 0:
                print(f"step {seen['step']} loss {seen['loss']:.4f}", flush=True)
    print(
        f"FINAL worker={index} step={seen['step']} loss={seen['loss']:.4f} "
        f"slope={seen['slope']:.4f} offset={seen['offset']:.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
