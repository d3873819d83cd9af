"""A TensorFlow server for one task of ``--servers``: serves until it is stopped.

Shipped to the task as a file and run by the user's Python, which needs
TensorFlow and nothing of ytf. Who and where it is comes from ``TF_CONFIG``.
"""

import importlib
import json
import os
import sys


def main() -> None:
    """Start the server of this task and serve."""
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, group, index = config["cluster"], config["task"]["type"], config["task"]["index"]
    if group not in cluster:
        sys.exit(f"{group}:{index} is not in the training cluster and cannot be a server")
    # ytf itself has no TensorFlow to be checked against.
    tf = importlib.import_module("tensorflow")
    server = tf.compat.v1.train.Server(
        tf.train.ClusterSpec(cluster), job_name=group, task_index=index
    )
    print(f"{group}:{index} serves at {cluster[group][index]}", flush=True)
    server.join()


if __name__ == "__main__":
    main()
