"""Makes the variables with which YARN's own docker runtime runs a starter's container.

A node whose LinuxContainerExecutor allows it (``docker`` in
``yarn.nodemanager.runtime.linux.allowed-runtimes``) reads them from the
environment of the launch context (``DockerLinuxContainerRuntime``). It mounts the
working directory and the localized files by itself, and runs as the submitter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ytf.backends.api import StarterLaunch
from ytf.starter.engine_container import DATA, MOUNTED, local_path

_RUNTIME = "YARN_CONTAINER_RUNTIME_TYPE"
_DOCKER = "YARN_CONTAINER_RUNTIME_DOCKER_"
_MOUNTABLE = re.compile(r"/[\w./+@=-]*", re.ASCII)
"""Nodes split the list of mounts at commas and colons, and paste it into a shell script."""


def docker_runtime_environment(launch: StarterLaunch, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a launch that names an image; none for others.

    The mounts are those of ``starter/engine_container``: Hadoop and Java as this master's
    node has them (``environ``), read-only, and input and output that are paths of nodes.
    A path that YARN's list of mounts cannot express is left out. A cluster runs
    only containers whose mounts it allows (``docker.allowed.ro-mounts`` and
    ``rw-mounts`` in container-executor.cfg).
    """
    if launch.yarn_image is None:
        return {}
    result = {
        _RUNTIME: "docker",
        f"{_DOCKER}IMAGE": launch.yarn_image,
        f"{_DOCKER}CONTAINER_NETWORK": "host",
    }
    mounts = _mounts(launch.env, environ)
    if mounts:
        result[f"{_DOCKER}MOUNTS"] = ",".join(mounts)
    return result


def _mounts(env: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    modes: dict[str, str] = {}
    for name in DATA:
        path = local_path(os.fsencode(env.get(name.decode(), "")))
        if path is not None:
            modes.setdefault(path, "rw")
    for name in MOUNTED:
        path = environ.get(name.decode(), "")
        if os.path.isdir(path):
            modes.setdefault(os.path.normpath(path), "ro")
    return [f"{path}:{path}:{mode}" for path, mode in modes.items() if _MOUNTABLE.fullmatch(path)]
