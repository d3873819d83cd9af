"""TensorFlow: its variables, its port, and the stock server of ``--servers``."""

from __future__ import annotations

from pathlib import Path

from ytf.frameworks.api import PortPolicy, Profile

PROFILE = Profile(
    name="tensorflow",
    # With TF_GRPC_REUSE_PORT its gRPC server binds with SO_REUSEPORT, so that
    # nobody can take the port between our choice and its start.
    port=PortPolicy.HOLD,
    variables="tensorflow",
    fixed={"TF_GRPC_REUSE_PORT": "1"},
    threads={
        "OMP_NUM_THREADS": 1,
        "TF_NUM_INTRAOP_THREADS": 1,
        # An op that blocks on a peer keeps its thread: with only one, the op
        # that would free it may never run.
        "TF_NUM_INTEROP_THREADS": 2,
    },
)

SERVER_NAME = "ytf_tensorflow_server.py"
"""The server program's name in a task's working directory."""


def server_file() -> Path:
    """The server program: needs TensorFlow and the task's variables, nothing of ytf."""
    # In a folder of its own: a script's folder is searched first, and here
    # `import tensorflow` would find this module.
    return Path(__file__).parent / "shipped" / SERVER_NAME


def server_command() -> str:
    """What a task of ``--servers`` runs, where :func:`server_file` lies as ``SERVER_NAME``.

    Nodes without a ``python`` (Debian's, for one) have a ``python3``.
    """
    return f'exec "$(command -v python || command -v python3 || echo python)" {SERVER_NAME}'
