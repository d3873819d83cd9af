"""ParameterServerStrategy with a loop of its own: the chief hands steps to the workers.

Workers and parameter servers run a TensorFlow server and never end by
themselves, so only the chief's end may end the job: the group ``worker`` must
not be tracked. ``parameter_server.yaml`` says so::

    ytf submit parameter_server.yaml --wait

The chief ends with ``FINAL step=<n> first=<x> loss=<x> accuracy=<x>`` for a
small network that learns whether a point lies inside a circle.
"""

import json
import os

import tensorflow as tf

EPOCHS, STEPS, BATCH = 6, 40, 64


def serve(cluster, task):
    """Serve the chief until the job stops this task."""
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster),
        job_name=task["type"],
        task_index=task["index"],
        protocol="grpc",
    )
    server.join()


def points(context=None):
    """An endless stream of points in a square, and whether each is inside the circle."""
    stream = context.input_pipeline_id if context else 1000

    def draw(number):
        x = tf.random.stateless_uniform([BATCH, 2], [stream, number], -1.0, 1.0)
        inside = tf.reduce_sum(tf.square(x), axis=1, keepdims=True) < 0.5
        return x, tf.cast(inside, tf.float32)

    return tf.data.Dataset.counter().map(draw)


class Network(tf.Module):
    """Two layers: 2 → 16 → 1."""

    def __init__(self):
        super().__init__()
        self.hidden = tf.Variable(tf.random.stateless_normal([2, 16], [1, 1]))
        self.shift = tf.Variable(tf.random.stateless_normal([16], [2, 2]))
        self.output = tf.Variable(tf.random.stateless_normal([16, 1], [3, 3]) * 0.1)
        self.bias = tf.Variable([0.0])

    def __call__(self, x):
        return tf.tanh(x @ self.hidden + self.shift) @ self.output + self.bias


def coordinate():
    """Train as the chief."""
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        network = Network()

    @tf.function
    def step(iterator):
        def replica(batch):
            x, y = batch
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(
                    tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=network(x))
                )
            variables = network.trainable_variables
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.5 * gradient)
            return loss

        return strategy.run(replica, args=(next(iterator),))

    @tf.function
    def batches():
        return strategy.distribute_datasets_from_function(points)

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    means = []
    for epoch in range(EPOCHS):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(STEPS)]
        coordinator.join()
        means.append(sum(float(loss.fetch()) for loss in losses) / STEPS)
        print(f"epoch {epoch} loss {means[-1]:.4f}", flush=True)

    hits = [
        tf.reduce_mean(tf.cast((network(x) > 0) == (y > 0.5), tf.float32))
        for x, y in points().take(10)
    ]
    accuracy = float(tf.reduce_mean(hits))
    print(
        f"FINAL step={EPOCHS * STEPS} first={means[0]:.4f} loss={means[-1]:.4f} "
        f"accuracy={accuracy:.4f}",
        flush=True,
    )


def main():
    config = json.loads(os.environ["TF_CONFIG"])
    if config["task"]["type"] == "chief":
        coordinate()
    else:
        serve(config["cluster"], config["task"])


if __name__ == "__main__":
    main()
