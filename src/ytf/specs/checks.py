"""The checks of ``ytf doctor`` and their results: stable names for programs that read its JSON."""

from __future__ import annotations

from enum import Enum

import msgspec


class CheckName(Enum):
    """The values of ``CheckResult.name``. A newer ytf may add checks; none changes its meaning."""

    YTF = "ytf"
    """The version of ytf, and the Python it runs on."""
    HOME = "YTF_HOME"
    """Nobody else can write to the directory of ytf's files, ytf can, and the disk has room."""
    SETTINGS = "settings"
    """Which settings files were read, and which, or what in them, was ignored and why."""
    BACKEND = "backend"
    """Where jobs would run, and why."""

    LOOPBACK = "loopback"
    """Local backend: whether ytf can keep the servers of programs away from the network. A note
    if it cannot."""
    ENGINE = "container engine"
    """Local backend: whether docker or podman can run images. A note if none can."""

    CONFIGURATION = "configuration"
    """YARN: where Hadoop's configuration is, and which of its files were read."""
    SECURITY = "security"
    """YARN: how users log in to the cluster, and whether ytf can."""
    RESOURCE_MANAGER = "ResourceManager"
    """YARN: the ResourceManagers answer, and one of them is active."""
    RM_CLOCK = "RM clock"
    """YARN: this machine's clock agrees with the ResourceManager's, by the Date header of its web
    server."""
    NODES = "nodes"
    """YARN: how many nodes there are, how they are, and what is free on them."""
    QUEUE = "queue"
    """YARN: the queue exists and runs, and the user may submit to it."""
    CONTAINERS = "container sizes"
    """YARN: the smallest and the largest container of the cluster."""
    MASTER_ATTEMPTS = "master attempts"
    """YARN: how often the cluster starts the master of a job. A note if it is less often than jobs
    ask for."""
    NODE_RECOVERY = "node recovery"
    """YARN: whether containers outlive a restart of their NodeManager. A note if they do not."""
    LOG_AGGREGATION = "log aggregation"
    """YARN: whether the logs of ended jobs are kept. A note if they are not."""
    NAME_NODE = "NameNode"
    """YARN: the NameNodes of the default file system answer, and one of them is active."""
    HDFS_HOME = "HDFS home"
    """YARN: the user's home directory is there, is the user's, and its quota is not used up."""
    HDFS_FILES = "HDFS files"
    """YARN: a small file below the home directory can be written, read and deleted."""
    NAME_NODE_CLOCK = "NameNode clock"
    """YARN: this machine's clock agrees with the NameNode's, by the modification time of that
    file."""
    LAYERS = "layer store"
    """YARN: nobody else can replace the stored layers, how many there are, and their size."""

    TEST_JOB = "test job"
    """A job of one small task runs. On YARN the task also uses HDFS from its node, and looks at
    the node's disk and clock."""


class CheckState(Enum):
    """How a check ended."""

    OK = "ok"
    """All is well."""
    NOTE = "note"
    """Jobs run; the text says what may surprise."""
    FAILED = "failed"
    """Jobs would not run, or not well; the hint says what to do."""
    SKIPPED = "skipped"
    """It was not made, because one that it depends on did not succeed."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``ytf doctor``."""

    name: CheckName
    """Which check it is."""
    state: CheckState
    """How it ended."""
    text: str
    """What was found, for people to read."""
    hint: str | None = None
    """What to do about it; null if there is nothing to do."""
