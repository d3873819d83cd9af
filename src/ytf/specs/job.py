"""What a job is: frozen data, no behaviour beyond looking itself up.

Decoding, printing and checking live in ``codec`` and ``check``; the command
line's short forms in ``grammar``.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ytf.specs.names import TaskId, group_of, index_of, task_id

PS = "ps"
EVALUATOR = "evaluator"
TENSORBOARD = "tensorboard"
CLIENT = "client"

UNTRACKED_ROLES = frozenset({PS, EVALUATOR, TENSORBOARD})
"""Groups whose end does not end the job, unless nothing else is left."""


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything a user may write."""


class OnFailure(Enum):
    """What happens to the job when a task of a group fails."""

    FAIL_JOB = "fail-job"
    RESTART_TASK = "restart-task"
    RESTART_JOB = "restart-job"
    IGNORE = "ignore"


class Framework(Enum):
    """Which variables a program is given, and who holds its port."""

    TENSORFLOW = "tensorflow"
    NONE = "none"


class RegistryKind(Enum):
    """Where starters report and the cluster spec is published."""

    REST = "rest"


class Placement(Enum):
    """How the tasks of a group lie on the nodes."""

    ANY = "any"
    """Wherever there is room."""
    SPREAD = "spread"
    """On as many nodes as can be had."""
    PACK = "pack"
    """On as few nodes as can be."""
    APART = "apart"
    """Never two on one node, however long that takes."""


class Resources(Spec, frozen=True, kw_only=True):
    """What one task gets. In YAML the key is ``memory``: MB, or a string with a unit.

    ``others`` are amounts of whatever else a cluster counts, by its name for
    it: ``yarn.io/fpga``.
    """

    memory_mb: int = msgspec.field(default=8192, name="memory")
    vcores: int = 1
    gpus: int = 0
    others: dict[str, int] = {}


class Backoff(Spec, frozen=True, kw_only=True):
    """How long to wait before the n-th restart: ``initial_s * factor**n``, at most ``max_s``."""

    initial_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0

    def delay_s(self, restarts: int) -> float:
        """The wait before the restart that follows ``restarts`` earlier ones."""
        # Beyond 2**64 the power only costs time; max_s has long won.
        return min(self.initial_s * self.factor ** min(restarts, 64), self.max_s)


class TaskGroupSpec(Spec, frozen=True, kw_only=True):
    """The tasks of one role.

    ``overrides`` gives single tasks (by index) resources of their own.
    ``environment`` is what its command runs on, where that is not the job's.
    ``tracked`` says whether the group's end ends the job; by default that
    follows from its name. ``min`` lets the job start with fewer tasks when the
    allocation timeout passes. ``node_label`` and ``placement`` are the job's
    where they are not given; the label ``""`` is that of nodes without one.
    """

    count: int
    command: str | None = None
    resources: Resources = Resources()
    overrides: dict[int, Resources] = {}
    tracked: bool | None = None
    on_failure: OnFailure | None = None
    max_restarts: int = 3
    backoff: Backoff = Backoff()
    min: int | None = None
    env: dict[str, str] = {}
    environment: str | None = None
    framework: Framework | None = None
    node_label: str | None = None
    placement: Placement | None = None


class Timeouts(Spec, frozen=True, kw_only=True):
    """How long each wait of a job may last, in seconds."""

    allocation_s: float = 600.0
    """From the first request to the last container."""
    rendezvous_s: float = 300.0
    """From the last container to the last registered starter, and to every program started."""
    job_s: float | None = None
    """From the first master's start to the end; None: for ever."""
    lifetime_s: float | None = None
    """From submission to the end, time in the queue included: kept by the cluster itself."""
    evaluator_s: float = 300.0
    """What a running evaluator gets to finish after the tracked tasks succeeded."""
    stop_grace_s: float = 10.0
    """From SIGTERM to SIGKILL."""
    heartbeat_s: float = 30.0
    """How long a starter may be silent before its container is given up."""
    orphan_s: float = 1800.0
    """How long a starter lives on without hearing from any master."""


class MasterSpec(Spec, frozen=True, kw_only=True):
    """What the master itself gets, and how often it may be started."""

    resources: Resources = Resources(memory_mb=512)
    max_attempts: int = 4
    """Starts allowed within ``attempt_window_s``; older ones are forgiven."""
    attempt_window_s: float = 600.0


class JobSpec(Spec, frozen=True, kw_only=True):
    """One submission, whole: what every backend needs to run the job.

    ``environment`` is what the user's command runs on: ``node``, ``current``
    or a path. ``python`` names one on the nodes for ytf's own processes; by
    default they bring their own. ``files`` maps names in the task's working directory to paths
    at the submitter's. ``servers`` runs a stock TensorFlow server in every
    task in place of a command; ``client`` adds one task at the submitter's
    terminal, which runs ``client_command`` or else ``command``.

    ``priority``, ``tags`` and who may look and change (``acl_view``,
    ``acl_modify``: ``"alice,bob admins"``, users and then groups) are for a
    cluster's queue. ``node_label`` is that of the nodes to use, for the master
    and for groups that have none of their own.
    """

    groups: dict[str, TaskGroupSpec]
    command: str | None = None
    name: str = "TensorFlow"
    queue: str = "default"
    input: str | None = None
    output: str | None = None
    script: str | None = None
    files: dict[str, str] = {}
    env: dict[str, str] = {}
    environment: str = "node"
    python: str | None = None
    framework: Framework = Framework.TENSORFLOW
    registry: RegistryKind = RegistryKind.REST
    tensorboard: bool = False
    client: bool = False
    client_command: str | None = None
    servers: bool = False
    docker_image: str | None = None
    priority: int | None = None
    tags: tuple[str, ...] = ()
    acl_view: str | None = None
    acl_modify: str | None = None
    node_label: str | None = None
    placement: Placement = Placement.ANY
    timeouts: Timeouts = Timeouts()
    master: MasterSpec = MasterSpec()
    max_node_failures: int = 3
    """A node where so many containers failed gets no more of this job."""
    log_limit_mb: int = 512
    """How much of each task's stdout and stderr is kept."""

    def tasks(self) -> list[TaskId]:
        """All tasks that get a container, in group order."""
        return [task_id(name, i) for name, group in self.groups.items() for i in range(group.count)]

    def group(self, task: TaskId) -> TaskGroupSpec:
        """The group of a task."""
        return self.groups[group_of(task)]

    def resources(self, task: TaskId) -> Resources:
        """What one task gets: its own override, else its group's."""
        group = self.group(task)
        return group.overrides.get(index_of(task), group.resources)

    def node_label_of(self, group: str) -> str | None:
        """The label of the nodes a group wants; None: as the queue has it."""
        own = self.groups[group].node_label
        return self.node_label if own is None else own

    def placement_of(self, group: str) -> Placement:
        """How the tasks of a group lie on the nodes."""
        return self.groups[group].placement or self.placement

    def command_of(self, group: str) -> str | None:
        """The command of a group's tasks, None where ytf brings the program itself."""
        own = self.groups[group].command
        if group == TENSORBOARD or self.servers:
            return own
        return own or self.command

    def tracked_groups(self) -> frozenset[str]:
        """The groups whose end ends the job, ``client`` among them.

        With ``servers`` nobody but the client decides, if there is one.
        """
        if self.servers:
            return frozenset({CLIENT}) if self.client else frozenset()
        wanted = {name: spec.tracked for name, spec in self.groups.items()}
        tracked = {
            name
            for name, said in wanted.items()
            if said or (said is None and name not in UNTRACKED_ROLES)
        }
        if self.client:
            tracked.add(CLIENT)
        if not tracked:
            tracked = {n for n, said in wanted.items() if said is None and n != TENSORBOARD}
        return frozenset(tracked)

    def policy(self, group: str) -> OnFailure:
        """What a failure in a group does; TensorBoard can never fail a job."""
        if group == TENSORBOARD:
            return OnFailure.IGNORE
        if group == CLIENT:
            return OnFailure.FAIL_JOB
        if self.servers and self.client:
            # The client's exit code alone ends such a job, unless a group says otherwise.
            return self.groups[group].on_failure or OnFailure.IGNORE
        return self.groups[group].on_failure or OnFailure.FAIL_JOB
