"""The table of settings: every key of ``ytf.toml``, what it means, and from where it is taken.

``ytf.client.settings`` reads the values. ``ytf --help``, ``ytf help settings`` and
``docs/reference.md`` are made from this table.
"""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """The meaning of a setting, and why a project's file cannot set it."""

    meaning: str
    only_user: str = ""
    """What the setting can do that only the user may decide: run programs, remove things, let
    others in. It is then taken from the user's own file, variables and options, and ignored in a
    project's file, which may come with a download or belong to a shared directory."""


SETTINGS: dict[str, Setting] = {
    "backend": Setting(
        "Where jobs run: local or yarn. Default: yarn if a Hadoop configuration is found, "
        "else local."
    ),
    "queue": Setting("The queue to submit to. Default: default."),
    "name": Setting("The name of jobs that have none. Default: TensorFlow."),
    "env": Setting(
        "What `python` in the command is: node (the node's own), current (the environment "
        "active at submission), a path or an hdfs:// URL. In ytf.toml a path is relative to that "
        "file. Default: node.",
        only_user="chooses the program that runs",
    ),
    "python": Setting(
        "The path of a Python on the nodes for ytf's own processes. Default: ytf ships its own.",
        only_user="chooses the program that runs",
    ),
    "registry": Setting(
        "Where tasks report: rest (the master), zk://host:port,host:port (a ZooKeeper) or zk (the "
        "one in Hadoop's configuration). Default: rest.",
        only_user="tells others where tasks are reached",
    ),
    "framework": Setting(
        "Which variables programs get: auto, tensorflow, pytorch, torchrun, jax, horovod, mpi or "
        "none. Default: auto."
    ),
    "docker_engine": Setting(
        "What runs docker images on the nodes: docker, podman or a path. Default: docker or, where "
        "that does not answer, podman.",
        only_user="chooses the program that runs",
    ),
    "priority": Setting("The priority in the queue. Default: the cluster's."),
    "tags": Setting("Words to find jobs by in YARN, comma-separated."),
    "acl_view": Setting(
        "Who else may look at jobs: `alice,bob admins` (users, then groups) or `*`.",
        only_user="lets others look at jobs",
    ),
    "acl_modify": Setting("Who else may kill jobs, likewise.", only_user="lets others kill jobs"),
    "node_label": Setting("The label of the nodes to use. Default: the queue's."),
    "gpus_per_node": Setting(
        "How many GPUs each node with GPUs has, if the ResourceManager does not count them."
    ),
    "task_vcores": Setting(
        "The vcores of each task, as with -c: 2, ps:1 or worker[0]:4. Default: 1."
    ),
    "task_memory": Setting(
        "The memory of each task, as with -m: 4096, ps:2 GiB or worker[0]:16 GiB. Default: 8192 MB."
    ),
    "task_ports": Setting("The ports for programs' servers: 30000-30999. Default: any free one."),
    "control_ports": Setting("The ports on which ytf's own processes listen, likewise."),
    "mlflow_timeout": Setting(
        "How long a job of the Python API waits for MLflow at its begin and again at its end, if "
        "MLflow is in use; 0 does without it. Default: 10 s."
    ),
    "history_days": Setting(
        "For how many days the records of ended jobs are kept. Default: 7.",
        only_user="decides what is removed",
    ),
}


def variable_of(setting: str) -> str:
    """The environment variable of a setting: ``YTF_QUEUE`` for ``queue``."""
    return f"YTF_{setting.upper()}"
