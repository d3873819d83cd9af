"""Notes on a planned submission: what is not wrong but may surprise the user, one sentence each.

The only I/O here is looking at files and at this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ytf.backends.api import Upload
from ytf.backends.hdfs_access import hdfs_urls, tensorflow_groups
from ytf.client.local_checks import ignored_fields
from ytf.frameworks.api import set_variables
from ytf.packaging.hdfs_plugin import DISTRIBUTION
from ytf.specs.amounts import format_memory
from ytf.specs.check import MAX_STRING
from ytf.specs.job import (
    CLIENT,
    EVALUATOR,
    TENSORBOARD,
    Framework,
    JobSpec,
    OnFailure,
    Resources,
    is_url,
)
from ytf.starter.hdfs_variables import PLUGIN_VARIABLE, find_tensorflow_io

_LITTLE_MEMORY_MB = 128
"""Less than this is hardly meant: a Python with TensorFlow needs several times as much."""
_HOST_LENGTH = {"local": len("127.0.0.1")}
_USUAL_HOST_LENGTH = 30
"""An assumed length of host names, where the hosts are not known yet."""
_SHOWN_LINKS = 5
_ALL_OR_NONE = (Framework.PYTORCH, Framework.TORCHRUN, Framework.JAX, Framework.HOROVOD)
"""Frameworks whose processes begin together, and end together."""


def link_notes(uploads: Iterable[Upload]) -> Iterator[str]:
    """A note on each named file or directory that has, or is, a link to elsewhere.

    Such a link is followed, because its target is not on the nodes: what it leads to is
    shipped. That may be a key or a data set that nobody meant to give away.
    """
    for source in dict.fromkeys(upload.source for upload in uploads):
        if is_url(source):
            continue
        real = os.path.realpath(source)
        if os.path.islink(source) and not _is_inside(real, os.path.dirname(source)):
            yield f"{source} is a link: what is shipped is {real}"
        found = list(_outside_links(source, real))
        if found:
            shown = [f"{link} → {target}" for link, target in found[:_SHOWN_LINKS]]
            more = [f"and {len(found) - _SHOWN_LINKS} more"] if len(found) > _SHOWN_LINKS else []
            count = "1 link leads" if len(found) == 1 else f"{len(found)} links lead"
            yield (
                f"{count} out of {source}, and what is there is shipped, too: "
                + ", ".join([*shown, *more])
            )


def _outside_links(directory: str, root: str) -> Iterator[tuple[str, str]]:
    """The links below a directory that leave it, and where they lead."""
    for folder, folders, files in os.walk(directory):
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                target = os.path.realpath(path)
                if os.path.exists(target) and not _is_inside(target, root):
                    yield os.path.relpath(path, directory), target


def _is_inside(path: str, directory: str) -> bool:
    return os.path.commonpath([path, os.path.realpath(directory)]) == os.path.realpath(directory)


def spec_notes(
    spec: JobSpec, backend: str, *, script: str | None, hdfs_plugin: str | None
) -> Iterator[str]:
    """Notes on a resolved spec.

    ``script`` is the name of the script file here, ``hdfs_plugin`` the directory of
    TensorFlow's plugin for ``hdfs://`` if it goes along.
    """
    yield from _script_notes(spec, script)
    yield from _memory_notes(spec)
    if backend == "local":
        yield from _machine_notes(spec)
        yield from _docker_notes(spec)
        yield from ignored_fields(spec)
    yield from _variable_notes(spec, backend)
    yield from _framework_notes(spec)
    yield from _hdfs_notes(spec, hdfs_plugin)


def _script_notes(spec: JobSpec, name: str | None) -> Iterator[str]:
    if name is None or spec.script is None:
        return
    named = ("DTF_TASK_SCRIPT", name, spec.script, name.rpartition(".")[0] or name)
    commands = [spec.command, spec.client_command, *(g.command for g in spec.groups.values())]
    if not any(word in command for command in commands if command for word in named):
        yield (
            f"no command names the script {name}: write $DTF_TASK_SCRIPT, and the command in "
            "single quotes, so that the task's shell expands it"
        )


def _memory_notes(spec: JobSpec) -> Iterator[str]:
    """Notes on amounts that no program can run in: most likely a unit was left out."""
    amounts = {("the master", "--master_memory "): spec.master.resources}
    for name, group in spec.groups.items():
        amounts[name, f"-m {name}:"] = group.resources
        for index, own in group.overrides.items():
            amounts[f"{name}:{index}", f"-m '{name}[{index}]:"] = own
    for (who, option), resources in amounts.items():
        mb = resources.memory_mb
        if mb < _LITTLE_MEMORY_MB:
            end = "'" if "'" in option else ""
            yield (
                f"{who} gets {mb} MB of memory, too little for most programs: a number without a "
                f"unit is in MB; for {mb} GiB write {option}{mb}g{end}, in a file memory: {mb}g"
            )


def _machine_notes(spec: JobSpec) -> Iterator[str]:
    cores = os.cpu_count() or 1
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    for name, group in spec.groups.items():
        asked = (group.resources, *group.overrides.values())
        vcores = max(resources.vcores for resources in asked)
        if vcores > cores:
            yield f"{name} asks for {vcores} vcores, and this machine has {cores}: tasks share them"
        most_mb = max(resources.memory_mb for resources in asked)
        # The default is a limit, not a request.
        if most_mb > max(memory_mb, Resources().memory_mb):
            yield (
                f"{name} asks for {format_memory(most_mb)} of memory, and this machine has "
                f"{memory_mb} MiB: a task that uses more than there is will fail"
            )


def _docker_notes(spec: JobSpec) -> Iterator[str]:
    groups = [name for name in spec.groups if spec.docker_image_of(name)]
    if groups and not spec.expose_ports:
        yield (
            f"{', '.join(groups)} runs in a docker image: if this machine's engine is a daemon "
            "(docker), other machines can reach the ports of its programs, see docs/security.md"
        )


def _variable_notes(spec: JobSpec, backend: str) -> Iterator[str]:
    members = {n: g.count for n, g in spec.groups.items() if n != TENSORBOARD}
    host = _HOST_LENGTH.get(backend, _USUAL_HOST_LENGTH)
    # "host:port," in DTF_…_HOSTS.
    longest = max(members.values(), default=0) * (host + len(":65535,"))
    # YTF_HOSTS and TF_CONFIG have all groups but the evaluator.
    cluster = sum(count for name, count in members.items() if name != EVALUATOR)
    longest = max(longest, cluster * (host + len('":65535", ')))
    if longest >= MAX_STRING:
        yield (
            f"{sum(members.values())} hosts are more than fit in a variable of "
            f"{MAX_STRING // 1024} KiB: DTF_…_HOSTS, YTF_HOSTS and TF_CONFIG will be left out; "
            "programs find the cluster spec in the file that YTF_CLUSTER_SPEC_FILE names"
        )


def _framework_notes(spec: JobSpec) -> Iterator[str]:
    """Notes on what does not work with the frameworks of the groups."""
    for name, group in spec.groups.items():
        framework = spec.framework_of(name)
        own = {name for each in group.task_env_overrides.values() for name in each}
        given = dict.fromkeys([*spec.task_env, *group.task_env, *sorted(own)])
        replaced = [each for each in given if each in set_variables(framework.value)]
        if replaced:
            yield (
                f"ytf sets {', '.join(replaced)} itself for {framework.value}: what task_env gives "
                f"{name} is not used"
            )
        together = sum(spec.groups[each].count for each, _ in spec.ranked_groups(framework))
        if (
            framework in _ALL_OR_NONE
            and together > 1
            and spec.policy(name) is OnFailure.RESTART_TASK
        ):
            yield (
                f"a {framework.value} task that is restarted alone cannot join the others again: "
                f"on_failure: restart-job restarts all tasks ({name})"
            )


def _hdfs_notes(spec: JobSpec, plugin: str | None) -> Iterator[str]:
    """Notes on TensorFlow programs that go without the plugin."""
    groups = tensorflow_groups(spec)
    urls = hdfs_urls(spec)
    if plugin is None and groups and spec.hdfs_plugin and urls and not spec.libhdfs:
        yield (
            f"TensorFlow itself opens no {urls[0]}: the plugin that does goes along with jobs "
            f"if {DISTRIBUTION} is installed beside ytf (`pip install ./native` in ytf's "
            "source, or a wheel of it); for other programs, --stage_in and --stage_out copy "
            "files from and to HDFS"
        )
    if plugin is None:
        return
    for name in groups:
        group = spec.groups.get(name)
        own = {} if group is None else group.task_env
        environment = (group.env if group is not None else None) or spec.env
        packages = _tensorflow_io_of(environment)
        if PLUGIN_VARIABLE in spec.task_env | own:
            yield (
                f"task_env sets {PLUGIN_VARIABLE} for {name}: ytf's plugin for hdfs:// is not "
                "used there"
            )
        elif packages is not None and name != CLIENT:
            yield (
                f"{packages} has tensorflow-io, which opens hdfs:// itself: ytf's plugin is "
                f"not used in {name}"
            )


def _tensorflow_io_of(environment: str) -> str | None:
    """The packages with tensorflow-io in an environment that is shipped; of a node's own: None."""
    if environment == "node":
        return None
    return find_tensorflow_io(os.path.join(environment, "bin"))
