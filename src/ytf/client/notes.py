"""What a user should know before a job is submitted, though nothing is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ytf.client.one_machine import ignored
from ytf.specs.check import MAX_STRING
from ytf.specs.job import EVALUATOR, TENSORBOARD, Framework, JobSpec, Resources
from ytf.specs.units import format_memory

_HOST_LENGTH = {"local": len("127.0.0.1")}
_USUAL_HOST_LENGTH = 30
"""What a host's name is taken to have where nobody knows it yet."""


def notes(spec: JobSpec, backend: str, script: str | None) -> Iterator[str]:
    """Sentences about a resolved spec; ``script`` is the name the script has here."""
    yield from _script(spec, script)
    if backend == "local":
        yield from _this_machine(spec)
        yield from ignored(spec)
    yield from _variables(spec, backend)


def _script(spec: JobSpec, name: str | None) -> Iterator[str]:
    if name is None or spec.script is None:
        return
    named = ("DTF_TASK_SCRIPT", name, spec.script, name.rpartition(".")[0] or name)
    commands = [spec.command, spec.client_command, *(g.command for g in spec.groups.values())]
    if not any(word in command for command in commands if command for word in named):
        yield (
            f"no command names the script {name}: write $DTF_TASK_SCRIPT, and the command in "
            "single quotes, so that it is the task's shell that fills it in"
        )


def _this_machine(spec: JobSpec) -> Iterator[str]:
    cores = os.cpu_count() or 1
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    for name, group in spec.groups.items():
        asked = (group.resources, *group.overrides.values())
        vcores = max(resources.vcores for resources in asked)
        if vcores > cores:
            yield f"{name} asks for {vcores} vcores, and this machine has {cores}: tasks share them"
        most_mb = max(resources.memory_mb for resources in asked)
        # Who did not ask is given a limit, not a promise.
        if most_mb > max(memory_mb, Resources().memory_mb):
            yield (
                f"{name} asks for {format_memory(most_mb)} of memory, and this machine has "
                f"{memory_mb} MiB: what is not there cannot be used"
            )


def _variables(spec: JobSpec, backend: str) -> Iterator[str]:
    members = {n: g.count for n, g in spec.groups.items() if n != TENSORBOARD}
    host = _HOST_LENGTH.get(backend, _USUAL_HOST_LENGTH)
    # "host:port," in DTF_…_HOSTS; TF_CONFIG has all groups but the evaluator, in quotes.
    longest = max(members.values(), default=0) * (host + len(":65535,"))
    if spec.framework is Framework.TENSORFLOW:
        cluster = sum(count for name, count in members.items() if name != EVALUATOR)
        longest = max(longest, cluster * (host + len('":65535", ')))
    if longest >= MAX_STRING:
        yield (
            f"{sum(members.values())} hosts are more than fit in a variable of "
            f"{MAX_STRING // 1024} KiB: DTF_…_HOSTS and TF_CONFIG will be left out; programs find "
            "the cluster spec in the file that YTF_CLUSTER_SPEC_FILE names"
        )
