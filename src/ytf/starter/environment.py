"""From the cluster spec to the program's environment variables. Pure.

Variables are bytes here: what the container was given passes through as it
is, whatever its encoding.
"""

from __future__ import annotations

import json
import os

from ytf.starter.config import TENSORFLOW, VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional

    from ytf.starter.config import Config

LONGEST = 131072
"""What Linux takes for one ``NAME=value`` string, its final zero byte included."""

NOT_PEERS = ("tensorboard", "client")
"""Groups whose addresses programs are not given."""

NOT_IN_TF_CONFIG = ("evaluator", *NOT_PEERS)
"""TensorFlow's cluster is those who train; the evaluator only watches checkpoints."""


class Identity:
    """What one attempt is: everything but the peers that its variables are made of."""

    __slots__ = ("attempt", "config", "generation", "host", "port", "port_is_held", "spec_file")

    def __init__(
        self,
        config: Config,
        *,
        attempt: int,
        generation: int,
        host: str,
        port: Optional[int],
        port_is_held: bool,
        spec_file: str,
    ) -> None:
        self.config = config
        self.attempt = attempt
        self.generation = generation
        self.host = host
        self.port = port
        self.port_is_held = port_is_held
        self.spec_file = spec_file


def environment(
    inherited: Mapping[bytes, bytes], me: Identity, members: Mapping[str, List[str]]
) -> Dict[bytes, bytes]:
    """All variables of the program.

    A variable made here that is too long for Linux is left out, not cut:
    the program finds the peers in ``YTF_CLUSTER_SPEC_FILE``.
    """
    result = dict(inherited)
    result.pop(VARIABLE.encode(), None)
    for name, value in _variables(me, members).items():
        key, data = os.fsencode(name), os.fsencode(value)
        result.pop(key, None)
        if len(key) + 1 + len(data) + 1 <= LONGEST:
            result[key] = data
    return result


def activate(variables: Mapping[str, str], inherited: Mapping[bytes, bytes]) -> Dict[bytes, bytes]:
    """Variables with which programs find an assembled environment first."""
    result = dict(inherited)
    # Set for another Python: it would make ours look for its library elsewhere.
    result.pop(b"PYTHONHOME", None)
    for name, value in variables.items():
        key, data = os.fsencode(name), os.fsencode(value)
        before = b"" if name == "VIRTUAL_ENV" else inherited.get(key, b"")
        result[key] = data + b":" + before if before else data
    return result


def _variables(me: Identity, members: Mapping[str, List[str]]) -> Dict[str, str]:
    config = me.config
    made = {
        "DTF_TASK_JOB_NAME": config.group,
        "DTF_TASK_INDEX": str(config.index),
        "YTF_JOB_ID": config.job,
        "YTF_CONTAINER_ID": config.container,
        "YTF_TASK": config.task,
        "YTF_ATTEMPT": str(me.attempt),
        "YTF_GENERATION": str(me.generation),
        "YTF_TASK_HOST": me.host,
        "YTF_CLUSTER_SPEC_FILE": me.spec_file,
    }
    for group, hosts in members.items():
        if group not in NOT_PEERS:
            made["DTF_%s_HOSTS" % group.upper()] = ",".join(hosts)
    if me.port is not None:
        made["YTF_TASK_PORT"] = str(me.port)
    if me.port_is_held:
        made["TF_GRPC_REUSE_PORT"] = "1"
    if config.variables == TENSORFLOW:
        made["TF_CONFIG"] = tf_config(config.group, config.index, members)
    return made


def tf_config(group: str, index: int, members: Mapping[str, List[str]]) -> str:
    """What TensorFlow reads about its cluster and its own place in it."""
    cluster = {name: list(hosts) for name, hosts in members.items() if name not in NOT_IN_TF_CONFIG}
    return json.dumps({"cluster": cluster, "task": {"type": group, "index": index}})


def container_environment() -> Dict[bytes, bytes]:
    """The variables this process was started with.

    Not ``os.environ``: where the locale is C, the interpreter adds an
    ``LC_CTYPE`` of its own to that.
    """
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0"))
        return {name: value for name, equals, value in pairs if equals}
