"""Makes what a program learns of its cluster: its environment variables and the spec's file.

Variables are bytes here: those that the container was given pass through as
they are, whatever their encoding.
"""

from __future__ import annotations

import json
import os

from ytf.frameworks.api import NOT_PEERS
from ytf.frameworks.ranks import ranks_of
from ytf.starter.config import STARTER_VARIABLE
from ytf.starter.orphans import STARTED_BY, own_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import FrameworkProfile, TaskContext
    from ytf.starter.desired_state import ReceivedClusterSpec

LONGEST = 131072
"""The longest ``NAME=value`` that Linux passes to a program, its final zero byte included."""

HIDDEN_GPUS = {
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
    "NVIDIA_VISIBLE_DEVICES": "void",
}
"""The variables of a program that is not to see any GPU, of NVIDIA's and of AMD's.

The last is for NVIDIA's container runtime: it gives all GPUs to images that say so."""


def process_environments(
    framework: FrameworkProfile, task: TaskContext, members: Mapping[str, List[str]]
) -> List[Dict[bytes, bytes]]:
    """Return the variables of each process to start, beyond those that all of a task share."""
    count = 1 if framework.starts_processes else task.processes
    found = []
    for local_rank in range(count):
        made = framework.process_variables(task, members, local_rank)
        if task.port is not None:
            made["YTF_RANK"] = str(ranks_of(task, members).first + local_rank)
            made["YTF_LOCAL_RANK"] = str(local_rank)
        found.append({os.fsencode(name): os.fsencode(value) for name, value in made.items()})
    return found


def program_environment(
    inherited: Mapping[bytes, bytes],
    framework: FrameworkProfile,
    task: TaskContext,
    members: Mapping[str, List[str]],
    files: Mapping[str, str],
) -> Dict[bytes, bytes]:
    """Return what all processes of the program share: inherited variables, and those made here.

    ``members`` is the cluster spec. ``files`` are paths of files, by their variables.
    A variable made here that is too long for Linux is left out, not cut:
    the program finds the peers in ``YTF_CLUSTER_SPEC_FILE``.
    """
    result = dict(inherited)
    result.pop(STARTER_VARIABLE.encode(), None)
    for name in framework.interface_variables:
        if task.interface is not None:
            result.setdefault(os.fsencode(name), os.fsencode(task.interface))
    for name, value in _variables(framework, task, members, files).items():
        key, data = os.fsencode(name), os.fsencode(value)
        result.pop(key, None)
        if len(key) + 1 + len(data) + 1 <= LONGEST:
            result[key] = data
    return result


def _variables(
    framework: FrameworkProfile,
    task: TaskContext,
    members: Mapping[str, List[str]],
    files: Mapping[str, str],
) -> Dict[str, str]:
    made = {
        "DTF_TASK_JOB_NAME": task.group,
        "DTF_TASK_INDEX": str(task.index),
        "YTF_JOB_ID": task.job,
        "YTF_CONTAINER_ID": task.container,
        "YTF_TASK": "%s:%d" % (task.group, task.index),
        "YTF_ATTEMPT": str(task.attempt),
        "YTF_GENERATION": str(task.generation),
        "YTF_TASK_HOST": task.host,
        **files,
        STARTED_BY: own_mark(),
    }
    for group, hosts in members.items():
        if group not in NOT_PEERS:
            made["DTF_%s_HOSTS" % group.upper()] = ",".join(hosts)
    if task.port is not None:
        ranks = ranks_of(task, members)
        made["YTF_TASK_PORT"] = str(task.port)
        made["YTF_WORLD_SIZE"] = str(ranks.size)
        made["YTF_LOCAL_SIZE"] = str(ranks.local_size)
        made["YTF_HOSTS"] = ",".join(ranks.addresses)
        made["YTF_HOSTFILE"] = task.hostfile
    made.update(framework.variables(task, members))
    return made


def activate(variables: Mapping[str, str], inherited: Mapping[bytes, bytes]) -> Dict[bytes, bytes]:
    """Return variables with which programs find an assembled environment first."""
    result = dict(inherited)
    # Set for another Python: it would make ours look for its library elsewhere.
    result.pop(b"PYTHONHOME", None)
    for name, value in variables.items():
        key, data = os.fsencode(name), os.fsencode(value)
        before = b"" if name == "VIRTUAL_ENV" else inherited.get(key, b"")
        result[key] = data + b":" + before if before else data
    return result


def with_variables(
    inherited: Mapping[bytes, bytes], variables: Mapping[str, str]
) -> Dict[bytes, bytes]:
    """Return the inherited variables with others in addition, or in their place."""
    more = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    return {**inherited, **more}


def container_environment() -> Dict[bytes, bytes]:
    """Return the variables that this process was started with.

    Not ``os.environ``: where the locale is C, the interpreter adds an
    ``LC_CTYPE`` of its own to that.
    """
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0"))
        return {name: value for name, equals, value in pairs if equals}


def cluster_spec_path(container: str) -> str:
    """Return where a container's cluster spec file is: in the working directory.

    The container is in the name because several clients may share a directory.
    """
    return os.path.join(os.getcwd(), ".ytf-cluster-spec-%s.json" % container.replace("/", "_"))


def metrics_path(container: str) -> str:
    """Return where a container's program reports its metrics, likewise."""
    return os.path.join(os.getcwd(), ".ytf-metrics-%s" % container.replace("/", "_"))


def hostfile_path(container: str) -> str:
    """Return where a container's hostfile is, likewise."""
    return os.path.join(os.getcwd(), ".ytf-hostfile-%s" % container.replace("/", "_"))


class ClusterSpecFile:
    """The file that ``YTF_CLUSTER_SPEC_FILE`` names: always one whole cluster spec."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, spec: ReceivedClusterSpec) -> None:
        """Replace the file atomically. Raises ``OSError``."""
        replace_file(self.path, json.dumps(spec.to_json()))

    def remove(self) -> None:
        """Remove the file, if it can be removed."""
        remove_file(self.path)


def replace_file(path: str, content: str) -> None:
    """Give a file another content atomically. Raises ``OSError``."""
    draft = path + ".new"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(draft, path)
    except OSError:
        remove_file(draft)
        raise


def remove_file(path: str) -> None:
    """Remove a file, if it can be removed."""
    try:
        os.unlink(path)
    except OSError:
        return  # it goes with the working directory
