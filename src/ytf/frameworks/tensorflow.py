"""TensorFlow: its port, its variables, its known failures, and the server of ``--servers``."""

from __future__ import annotations

import json
import os

from ytf.frameworks.api import HOLD, NOT_PEERS, FrameworkProfile, Hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import TaskContext

SERVER_NAME = "ytf_tensorflow_server.py"
"""The server program's name in a task's working directory."""

# In a folder of its own: a script's folder is searched first, and here
# `import tensorflow` would find this module.
SERVER_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shipped", SERVER_NAME)
"""The server program: needs TensorFlow and the task's variables, nothing of ytf."""

# Nodes without a `python` (Debian's, for one) have a `python3`.
SERVER_COMMAND = 'exec "$(command -v python || command -v python3 || echo python)" %s' % SERVER_NAME
"""What a task of ``--servers`` runs in a directory that holds :data:`SERVER_FILE`."""

_NOT_IN_TF_CONFIG = ("evaluator", *NOT_PEERS)
"""TensorFlow's cluster has the tasks that train; an evaluator only reads checkpoints."""

_HINTS = (
    Hint(
        "Keras 3 cannot `fit` under MultiWorkerMirroredStrategy or ParameterServerStrategy: "
        "use tf_keras (import it, or set TF_USE_LEGACY_KERAS=1) or a training loop of your own",
        r"[/\\]keras[/\\]src[/\\]",
        r"unsupported type \(<class 'tensorflow\.python\.distribute\.values\.PerReplica'>\)"
        r"|pass this dataset to ClusterCoordinator\.create_per_worker_dataset",
    ),
    Hint(
        "this TensorFlow is too old for ytf's plugin for hdfs://, which needs 2.12: tensorflow-io "
        "opens it in a program that imports that, and --libhdfs sets what it needs; --stage_in and "
        "--stage_out work with any",
        r"^ytf: TensorFlow cannot open hdfs:// here: this TensorFlow has no ",
        r"File system scheme '(hdfs|viewfs)' not implemented",
    ),
    Hint(
        "TensorFlow 2.12 and newer opens {scheme}:// by ytf's plugin, which this program did not "
        "have: install it beside ytf where jobs are submitted (`pip install ./native` in ytf's "
        "source) and submit without --no_hdfs_plugin (--dryrun shows whether it goes along). An "
        "older one opens it by tensorflow-io, for which --libhdfs sets what it needs. Or have the "
        "files copied by --stage_in and --stage_out",
        r"File system scheme '(?P<scheme>hdfs|viewfs)' not implemented",
    ),
    Hint(
        "this TensorFlow cannot open {scheme}:// paths: use HDFS, a path that every node has "
        "mounted, or read and write through fsspec",
        r"File system scheme '(?P<scheme>[^']+)' not implemented",
    ),
    Hint(
        "the program uses Hadoop's libhdfs: submit with --libhdfs, which sets what that needs on "
        "nodes that have Java, and Hadoop with its native libraries",
        r"Environment variable (HADOOP_HDFS_HOME|CLASSPATH) not set"
        r"|Unable to load lib(hdfs|jvm): "  # pyarrow's
        # With a path before it, that was the first try of two.
        r"|(?<!/)lib(hdfs|jvm)\.so: cannot open shared object file",
    ),
    Hint(
        "tf.summary needs the package tensorboard in the program's own environment, beside "
        "the one that serves -t: install it there, or write with tf.compat.v1.summary",
        r"^tensorflow\.\S*TBNotInstalledError: ",
    ),
    Hint(
        "tf.estimator is gone since TensorFlow 2.16: run the program on 2.15 (--env), or "
        "move it to tf_keras or a training loop of its own",
        r"^AttributeError: module 'tensorflow[\w.]*' has no attribute 'estimator'",
    ),
    Hint(
        "{name} is TensorFlow 1's: write `import tensorflow.compat.v1 as tf` and "
        "`tf.disable_v2_behavior()`, or choose a TensorFlow 1 with --env",
        r"^AttributeError: module 'tensorflow(\._api\.v2)?(\.\w+)*' has no attribute "
        r"'(?P<name>Server|Session|ConfigProto|placeholder|app|flags|get_variable|"
        r"global_variables_initializer|MonitoredTrainingSession|Supervisor|"
        r"replica_device_setter)'",
    ),
    Hint(
        "another process has the port that TensorFlow's server was to use",
        r"Could not start gRPC server|Failed to add port to server: No address added",
    ),
)


class TensorFlowProfile(FrameworkProfile):
    """TensorFlow 1 and 2."""

    # With TF_GRPC_REUSE_PORT its gRPC server binds with SO_REUSEPORT, so that
    # nobody can take the port between our choice and its start.
    port_policy = HOLD
    # TF_CONFIG has one address for a task, so only one process can be it.
    several_processes = False
    default_env: Mapping[str, str] = {"TF_GRPC_REUSE_PORT": "1"}
    threads: Mapping[str, int] = {
        "OMP_NUM_THREADS": 1,
        "TF_NUM_INTRAOP_THREADS": 1,
        # An op that blocks on a peer keeps its thread: with only one, the op
        # that would free it may never run.
        "TF_NUM_INTEROP_THREADS": 2,
    }
    hints = _HINTS

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return ``TF_CONFIG`` and, where the starter holds the port, the switch to share it."""
        made = {"TF_CONFIG": tf_config(task.group, task.index, members)}
        if task.port_is_held:
            made["TF_GRPC_REUSE_PORT"] = "1"
        return made


PROFILE = TensorFlowProfile()


def tf_config(group: str, index: int, members: Mapping[str, List[str]]) -> str:
    """Return the JSON in which TensorFlow reads its cluster and the task's place in it."""
    cluster = {
        name: list(hosts) for name, hosts in members.items() if name not in _NOT_IN_TF_CONFIG
    }
    return json.dumps({"cluster": cluster, "task": {"type": group, "index": index}})
