"""Describes a plan in words, for ``--dryrun``."""

from __future__ import annotations

from ytf.backends.api import Plan
from ytf.specs.amounts import format_memory
from ytf.specs.durations import format_duration
from ytf.specs.job import (
    CLIENT,
    DockerRuntime,
    JobSpec,
    MasterSpec,
    Placement,
    Resources,
)

_MASTER = MasterSpec().resources


def describe(plan: Plan) -> str:
    """What would be submitted, as text for a person; ends with a line ending."""
    spec, by = plan.spec, plan.hdfs_plugin
    stays_s = spec.timeouts.tensorboard_s
    lines = [f"job {spec.name!r} for {plan.user} on {plan.backend}, queue {spec.queue}"]
    lines += _groups(spec)
    pairs = [
        ("input", spec.input),
        ("output", spec.output),
        ("script", spec.script),
        ("env", spec.env),
        ("framework", spec.framework.value),
        ("hdfs:// in TensorFlow", by and f"by the plugin in {by}"),
        ("libhdfs", "as the nodes have it" if spec.libhdfs else None),
        ("registry", spec.registry),
        ("time limit", format_duration(spec.timeouts.job_s) if spec.timeouts.job_s else None),
        ("TensorBoard stays", f"{format_duration(stays_s)} after a success" if stays_s else None),
        ("lifetime", f"{spec.timeouts.lifetime_s:g} s" if spec.timeouts.lifetime_s else None),
        ("priority", str(spec.priority) if spec.priority is not None else None),
        ("tags", ", ".join(spec.tags)),
        ("may look", spec.acl_view),
        ("may change", spec.acl_modify),
        ("task ports", spec.task_ports),
        ("control ports", spec.control_ports),
        ("programs' servers", "open to other machines" if spec.expose_ports else None),
        ("master", _amount(own) if (own := spec.master.resources) != _MASTER else None),
    ]
    lines += [f"{name}: {value}" for name, value in pairs if value]
    lines += [f"ships: {upload.source} as {upload.name}" for upload in plan.uploads]
    lines += [f"sets: {name}={value}" for name, value in spec.task_env.items()]
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines) + "\n"


def _engine(spec: JobSpec) -> str:
    if spec.docker.runtime is DockerRuntime.YARN:
        return "YARN's docker runtime"
    return spec.docker.engine or "docker or podman"


def _groups(spec: JobSpec) -> list[str]:
    tracked = spec.tracked_groups()
    lines: list[str] = []
    for name, group in spec.groups.items():
        role = "ends the job" if name in tracked else "does not end the job"
        policy = spec.policy(name).value
        lines.append(
            f"  {name} × {group.count}{_least(group.min)}{_processes(group.processes)}: "
            f"{_amount(group.resources)}; {role}; "
            f"on failure {policy}{_place(spec, name)}"
        )
        lines += [
            f"    {name}:{index}: {_amount(own)}" for index, own in sorted(group.overrides.items())
        ]
        lines += [
            f"    {name}:{index} sets: {variable}={value}"
            for index, own in sorted(group.task_env_overrides.items())
            for variable, value in own.items()
        ]
        if spec.framework_of(name) is not spec.framework:
            lines.append(f"    framework: {spec.framework_of(name).value}")
        command = spec.command_of(name)
        lines.append("    a TensorFlow server" if command is None else _command(command))
        lines += _staging(spec, name)
        image = spec.docker_image_of(name)
        if image is not None:
            lines.append(f"    in the image {image}, run by {_engine(spec)}")
    if spec.client:
        lines.append(f"  {CLIENT} × 1: here; ends the job")
        lines.append(_command(spec.client_command or spec.command or ""))
    return lines


def _staging(spec: JobSpec, group: str) -> list[str]:
    lines = []
    for source in spec.stage_in_of(group):
        what = "a share of " if source.shard else ""
        lines.append(f"    stages in: {what}{source.source} to {source.to or 'its directory'}")
    for output in spec.stage_out_of(group):
        when = ", also of a failed program" if output.always else ""
        lines.append(f"    stages out: {output.dir} to {output.to}{when}")
    return lines


def _least(least: int | None) -> str:
    return "" if least is None else f" (at least {least})"


def _processes(count: int) -> str:
    return "" if count == 1 else f" ({count} processes each)"


def _amount(resources: Resources) -> str:
    words = [f"{resources.vcores} vcore(s)", format_memory(resources.memory_mb)]
    if resources.gpus:
        words.append(f"{resources.gpus} GPU(s)")
    words += [f"{amount} {name}" for name, amount in resources.others.items()]
    return ", ".join(words)


def _place(spec: JobSpec, group: str) -> str:
    words = ""
    if spec.placement_of(group) is not Placement.ANY:
        words += f"; placed {spec.placement_of(group).value}"
    label = spec.node_label_of(group)
    if label is not None:
        words += f"; on nodes labelled {label}" if label else "; on nodes without a label"
    return words


def _command(command: str) -> str:
    first, *rest = command.split("\n")
    return "\n".join([f"    $ {first}", *(f"      {line}" for line in rest)])
