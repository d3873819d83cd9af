"""Makes the job spec of a torchx ``AppDef``: a role becomes a task group. No I/O.

What a job cannot do is refused, not left out: mounts, spare replicas. A role's ports are
left out, as tasks use the network of their node; so are the capabilities of a resource,
which name machines of other clusters.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from torchx.specs import AppDef, BindMount, Resource, RetryPolicy, Role, macros

from ytf.client.framework_detection import find_framework
from ytf.client.job import checked
from ytf.errors import SpecError
from ytf.specs.grammar import MAX_NAME
from ytf.specs.job import (
    CLIENT,
    TENSORBOARD,
    Framework,
    JobSpec,
    OnFailure,
    Resources,
    TaskGroupSpec,
    Timeouts,
)

OPTIONS = (
    "name", "queue", "env", "framework", "node_label", "placement", "priority", "tags",
    "acl_view", "acl_modify",
)  # fmt: skip
"""The run options that are fields of the job spec."""
WORKSPACE = "yarn.workspace"
"""The key in a role's metadata for the directory that its tasks begin in."""

_OWN_COPY = "torchx_workspace"
"""The directory, in a task's working directory, that its command begins in."""
_RANK0 = "TORCHX_RANK0_HOST"
"""The variable with the host of the first role's first replica."""
_MACROS = {
    "torchx-app-id": "YTF_JOB_ID",
    "torchx-replica-id": "DTF_TASK_INDEX",
    "torchx-img-root": "torchx_img_root",
}
"""What stands in a text for a value that is known in the task only → its shell variable."""
_MACRO = re.compile("\0(" + "|".join(_MACROS) + ")\0")


def group_name(role: str) -> str:
    """Return the name of a role's task group; it is its own name's group name, too."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", role)
    if not re.match("[A-Za-z]", name):
        name = f"role_{name}"
    # Groups of these names are not like others.
    return f"{name}_" if name.lower() in (CLIENT, TENSORBOARD) else name[:MAX_NAME]


def job_spec(app: AppDef, options: Mapping[str, object]) -> JobSpec:
    """Return the job of an app, with run options: ``docker``, and those of ``OPTIONS``.

    A role's ``WORKSPACE`` is shipped, and its command begins in a copy of it. Its image is
    used only if the option ``docker`` says so. Raises ``SpecError`` for what a job cannot be.
    """
    groups: dict[str, TaskGroupSpec] = {}
    folders: dict[str, str] = {}
    first = group_name(app.roles[0].name)
    for role in app.roles:
        name = group_name(role.name)
        if name in groups:
            raise SpecError(
                f"two roles become the task group {name!r}",
                where=f"role {role.name!r}",
                hint="rename one: letters, digits and underscores tell them apart",
            )
        folder = role.metadata.get(WORKSPACE)
        if folder is not None:
            folders[f"torchx_role_{name}"] = str(folder)
        groups[name] = _group(
            role,
            folder=f"torchx_role_{name}" if folder is not None else None,
            first=first,
            image=role.image if options.get("docker") else None,
        )
    fields: dict[str, object] = {
        "name": app.name,
        # An image brings its own Python.
        "env": "node" if options.get("docker") else "current",
        "framework": _launcher(app.roles),
    }
    fields |= {name: options[name] for name in OPTIONS if options.get(name) is not None}
    return checked(
        JobSpec(
            groups=groups,
            files=folders,
            # An app has ended when all of its roles have; none of them decides alone.
            timeouts=Timeouts(after_chief_s=None),
            **fields,  # type: ignore[arg-type]
        )
    )


def _group(role: Role, *, folder: str | None, first: str, image: str | None) -> TaskGroupSpec:
    for mount in role.mounts:
        is_there = isinstance(mount, BindMount) and mount.src_path == mount.dst_path
        if not is_there or image is not None:
            raise SpecError(
                f"{mount} cannot be mounted",
                where=f"role {role.name!r}",
                hint="tasks without a docker image see their node's files; in one they see their "
                "working directory only",
            )
    # The macros have no value before the job runs, and shells on the way to it.
    values = macros.Values(
        img_root="\0torchx-img-root\0",
        app_id="\0torchx-app-id\0",
        replica_id="\0torchx-replica-id\0",
        rank0_env=_RANK0,
    )
    role = values.apply(role)
    plain = {name: value for name, value in role.env.items() if not _MACRO.search(value)}
    return TaskGroupSpec(
        count=role.num_replicas,
        min=_minimum(role),
        command=_command(role, folder, first, exported=role.env.keys() - plain.keys()),
        resources=_resources(role.resource),
        tracked=True,
        task_env=plain,
        docker_image=image,
        on_failure=_policy(role),
        max_restarts=role.max_retries,
    )


def _command(role: Role, folder: str | None, first: str, *, exported: set[str]) -> str:
    """The shell script of a role's tasks, whose macros are applied."""
    lines = []
    if folder is not None:
        # A copy for each task: what YARN has shipped is shared by the tasks of a node. An
        # earlier attempt in the same container may have left its own.
        lines.append(f"mkdir -p {_OWN_COPY} && cp -Rf {folder}/. {_OWN_COPY} || exit 1")
        lines.append(f"cd {_OWN_COPY} || exit 1")
    words = [role.entrypoint, *role.args]
    texts = [*words, *role.env.values()]
    if any("\0torchx-img-root\0" in text for text in texts):
        lines.append('torchx_img_root="$PWD"')
    if any(_RANK0 in text for text in texts):
        lines.append(f'{_RANK0}="${{DTF_{first.upper()}_HOSTS%%,*}}"')
        lines.append(f'export {_RANK0}="${{{_RANK0}%:*}}"')
    lines += [f"export {name}={_quoted(role.env[name])}" for name in sorted(exported)]
    lines.append("exec " + " ".join(map(_quoted, words)))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A text as one word of a shell, in which only macros are expanded."""
    parts = _MACRO.split(text)
    words = [f'"${_MACROS[part]}"' if i % 2 else shlex.quote(part) for i, part in enumerate(parts)]
    return "".join(word for word in words if word != "''") or "''"


def _resources(resource: Resource) -> Resources:
    return Resources(
        memory=resource.memMB,
        vcores=resource.cpu,
        gpus=max(resource.gpu, 0),
        others=dict(resource.devices),
    )


def _minimum(role: Role) -> int | None:
    least = role.min_replicas
    return least if least is not None and least < role.num_replicas else None


def _policy(role: Role) -> OnFailure:
    if role.retry_policy is RetryPolicy.HOT_SPARE:
        raise SpecError(
            "spare replicas (HOT_SPARE) are not supported",
            where=f"role {role.name!r}",
            hint="use the retry policy APPLICATION or REPLICA",
        )
    if not role.max_retries:
        return OnFailure.FAIL_JOB
    is_one = role.retry_policy is RetryPolicy.REPLICA
    return OnFailure.RESTART_TASK if is_one else OnFailure.RESTART_JOB


def _launcher(roles: Sequence[Role]) -> Framework:
    """The framework of the launcher that the only role runs, else none.

    Several roles that run ``torchrun`` do not meet each other, as the variables for it would
    have them do.
    """
    if len(roles) == 1:
        found = find_framework(" ".join([roles[0].entrypoint, *roles[0].args]), {})
        if found is not None:
            return found.framework
    return Framework.NONE
