"""Builds the ContainerLaunchContexts with which nodes start a job's master and its starters.

A context holds the local resources (files in HDFS that the node localizes), the
environment, the command, the credentials and the ACLs of a container.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ytf.backends.api import StarterLaunch
from ytf.hadoop.security.credentials import MASTER_TOKEN, Credentials
from ytf.hadoop.security.login import USER_VARIABLE
from ytf.hadoop.yarn.contexts import ApplicationAcls, ContainerLaunchContext, LocalResource
from ytf.specs.ids import group_of, index_of
from ytf.specs.job import JobSpec
from ytf.starter.config import CONTAINER_DIR
from ytf.starter.engine_container import DATA, MOUNTED, local_path
from ytf.starter.yarn_container import LAUNCH, SCRIPT, SECRET_ALIAS
from ytf.storage.container_conf import CONF_DIR

SECRET_NAME = SECRET_ALIAS.decode()
"""The name of the job's secret in the credentials of its containers."""

_DOCKER_RUNTIME = "YARN_CONTAINER_RUNTIME_TYPE"
_DOCKER = "YARN_CONTAINER_RUNTIME_DOCKER_"
_MOUNTABLE = re.compile(r"/[\w./+@=-]*", re.ASCII)
"""Nodes split the list of mounts at commas and colons, and paste it into a shell script."""

LocalResources = dict[str, LocalResource]
"""Maps the name of a file in the container's working directory to the file in HDFS."""


class GroupEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of a task group's commands, which starters assemble from layers.

    ``manifest`` is the name of a file in the working directory. ``layers`` are the
    directories into which the layers are unpacked, in the manifest's order. ``files``
    are the local resources of both. The starter's side is ``starter/environment_builder.py``.
    """

    manifest: str
    layers: tuple[str, ...]
    files: LocalResources


class StarterResources(msgspec.Struct, frozen=True, kw_only=True):
    """The local resources of starters, and the script that starts a starter."""

    script: str
    files: LocalResources
    """The files of every starter."""
    helper: tuple[str, ...] = ()
    """The arguments with which a starter's interpreter runs a module of ytf, whose name follows."""
    finder: tuple[str, ...] = ()
    """The module with which a starter looks for the master, and its arguments."""
    hdfs_plugin: str = ""
    """The directory of TensorFlow's plugin for ``hdfs://``, if it is among the files."""
    environments: dict[str, GroupEnvironment] = {}
    """By group. A group that is not in it uses what the node has installed."""

    def for_group(self, group: str) -> LocalResources:
        """All local resources of a starter of a group."""
        own = self.environments.get(group)
        return self.files if own is None else {**self.files, **own.files}


@dataclass(frozen=True, kw_only=True)
class LaunchContexts:
    """Builds the launch contexts of one job."""

    user: str
    secure: bool
    credentials: Credentials
    acls: ApplicationAcls = field(default_factory=ApplicationAcls)
    """Who else may view or modify the job. Nodes check it for the containers they start."""

    def master(
        self, staging: str, script: str, resources: LocalResources
    ) -> ContainerLaunchContext:
        """The context of the master of the job that is staged at a URL."""
        # Both values can contain a user's name. They are in the script, so that one shell reads
        # them: those that read the node's own script and its command would expand them, too.
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in self._user().items()]
        lines.append(f"set -- --backend yarn --staging {shlex.quote(staging)}\n")
        return ContainerLaunchContext(
            command=_command("master.sh", ""),
            environment={SCRIPT: _encoded("".join(lines) + script)},
            local_resources=resources,
            credentials=self.credentials,
            acls=self.acls,
        )

    def starter(self, launch: StarterLaunch, resources: StarterResources) -> ContainerLaunchContext:
        """The context of one starter."""
        group = group_of(launch.task)
        starter: dict[str, object] = {
            **launch.starter,
            "log_prefix": f"{group}-{index_of(launch.task)}",
            "hadoop_conf": CONF_DIR,
        }
        if resources.helper:
            starter["helper"] = resources.helper
            starter["helper_env"] = self._user()
        if launch.hdfs_plugin and resources.hdfs_plugin:
            starter["hdfs_plugin"] = resources.hdfs_plugin
        if resources.finder:
            starter["finder"] = resources.finder
        environment = resources.environments.get(group)
        if environment is not None:
            starter["environment"] = {
                "manifest": environment.manifest,
                "layers": environment.layers,
            }
        if launch.docker is not None:
            defaults = [*self._user(), *launch.defaults, *launch.env]
            starter["docker"] = {**launch.docker, "variables": defaults}
        config = {
            "env": launch.env,
            "defaults": {**self._user(), **launch.defaults},
            "starter": starter,
        }
        return ContainerLaunchContext(
            command=_command("starter.sh", "starter."),
            environment={
                LAUNCH: _encoded(json.dumps(config)),
                SCRIPT: _encoded(resources.script),
                **docker_runtime_environment(launch, os.environ),
            },
            local_resources=resources.for_group(group),
            credentials=self.credentials.without_kind(MASTER_TOKEN),
            acls=self.acls,
        )

    def _user(self) -> dict[str, str]:
        # Without Kerberos a node may run everyone's containers as one user of its own.
        return {} if self.secure else {USER_VARIABLE: self.user}


def acls_of(spec: JobSpec) -> ApplicationAcls:
    """The ACLs of the job's application: who besides the owner may view and modify it."""
    return ApplicationAcls(view=spec.acl_view or "", modify=spec.acl_modify or "")


def docker_runtime_environment(launch: StarterLaunch, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which YARN's own docker runtime runs a starter; none without an image.

    A node whose LinuxContainerExecutor allows it (``docker`` in
    ``yarn.nodemanager.runtime.linux.allowed-runtimes``) reads them from the
    environment of the launch context (``DockerLinuxContainerRuntime``). It mounts the
    working directory and the localized files by itself, and runs as the submitter.

    The mounts are those of ``starter/engine_container``: Hadoop and Java as this master's
    node has them (``environ``), read-only, and input and output that are paths of nodes.
    A path that YARN's list of mounts cannot express is left out. A cluster runs
    only containers whose mounts it allows (``docker.allowed.ro-mounts`` and
    ``rw-mounts`` in container-executor.cfg).
    """
    if launch.yarn_image is None:
        return {}
    result = {
        _DOCKER_RUNTIME: "docker",
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


def _encoded(text: str) -> str:
    """``text`` in base64: nodes paste variables into a shell script without quoting them."""
    return base64.b64encode(text.encode()).decode()


def _command(script: str, log_prefix: str) -> str:
    """The command that runs the script in ``YTF_SCRIPT``.

    As a file of the job the script would have to be fetched by the nodes for
    each job, while everything else that most jobs need is in the nodes' caches.
    """
    logs = f"1><LOG_DIR>/{log_prefix}stdout 2><LOG_DIR>/{log_prefix}stderr"
    script = f"{CONTAINER_DIR}/{script}"
    unpack = f"echo ${SCRIPT} | base64 -d >{script}"
    return f"{unpack} && exec sh {script} {logs}"
