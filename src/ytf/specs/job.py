"""The types of a job spec: what a user may ask for, as frozen data.

The text below a field is its documentation: ``ytf help job.yaml``, the JSON
schema and ``docs/reference.md`` show it. ``codec`` decodes and prints specs,
``check`` checks them, ``grammar`` reads the command line's short forms.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from ytf.specs.amounts import parse_memory
from ytf.specs.ids import TaskId, group_of, index_of, task_id

CHIEF = "chief"
MASTER = "master"
PS = "ps"
EVALUATOR = "evaluator"
TENSORBOARD = "tensorboard"
CLIENT = "client"

UNTRACKED_ROLES = frozenset({PS, EVALUATOR, TENSORBOARD})
"""Groups whose end does not end the job, unless nothing else is left."""

CHIEF_ROLES = frozenset({CHIEF, MASTER})
"""Groups whose success decides the job: TensorFlow has used both names for this role."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def is_url(path: str) -> bool:
    """Whether a path in a spec is a URL."""
    return _URL.match(path) is not None


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of all parts of a job spec."""


class OnFailure(Enum):
    """What happens to the job when a task of a group fails."""

    FAIL_JOB = "fail-job"
    """The job ends FAILED."""
    RESTART_TASK = "restart-task"
    """The task is started again, up to ``max_restarts`` times; the others go on."""
    RESTART_JOB = "restart-job"
    """All tasks are started again, up to ``max_restarts`` times."""
    IGNORE = "ignore"
    """The job goes on without the task."""


class Framework(Enum):
    """Which variables a program is given, and whether its port is held for it."""

    AUTO = "auto"
    """Found at submission from the command and the imports of the script; tensorflow where these
    tell nothing.
    """
    TENSORFLOW = "tensorflow"
    """``TF_CONFIG`` is set. The port stays reserved with SO_REUSEPORT for all attempts in the
    container.
    """
    PYTORCH = "pytorch"
    """``MASTER_ADDR``, ``RANK``, ``WORLD_SIZE`` and the others of ``init_process_group`` are set.
    """
    TORCHRUN = "torchrun"
    """The command is ``torchrun`` without options for the cluster: it finds the others and a c10d
    rendezvous in variables.
    """
    JAX = "jax"
    """A plain ``jax.distributed.initialize()`` finds the other processes."""
    HOROVOD = "horovod"
    """``hvd.init()`` finds the other processes with gloo, at a rendezvous that ytf serves."""
    MPI = "mpi"
    """``mpirun``, in one task, uses the hosts of all tasks."""
    NONE = "none"
    """Only the variables that every program gets."""


class Placement(Enum):
    """How the tasks of a group are placed on the nodes of a cluster."""

    ANY = "any"
    """Wherever there is room."""
    SPREAD = "spread"
    """On as many nodes as possible."""
    PACK = "pack"
    """On as few nodes as possible."""
    APART = "apart"
    """Never two on one node, however long the job waits for that."""


class DockerRuntime(Enum):
    """Who runs the containers of docker images."""

    STARTER = "starter"
    """ytf, with the docker or podman that it finds on the node."""
    YARN = "yarn"
    """YARN's own docker runtime, where a cluster has it."""


class Resources(Spec, frozen=True, kw_only=True):
    """What one container gets."""

    memory: int | str = 8192
    """Memory in MB, or text with a unit: ``4 GiB``. A unit is a power of 1024."""
    vcores: int = 1
    """YARN's virtual cores."""
    gpus: int = 0
    """GPUs (``yarn.io/gpu``). A task sees those it was given, and no others; one without any sees
    none if others of the job have some, or if it is a ps, an evaluator or TensorBoard.
    """
    others: dict[str, int] = {}
    """Amounts of other resource types of the cluster, by name: ``yarn.io/fpga: 1``."""

    def __post_init__(self) -> None:
        if isinstance(self.memory, str):
            msgspec.structs.force_setattr(self, "memory", parse_memory(self.memory, where="memory"))

    @property
    def memory_mb(self) -> int:
        """The memory in MB."""
        assert isinstance(self.memory, int)  # __post_init__ has converted text
        return self.memory


class Backoff(Spec, frozen=True, kw_only=True):
    """The wait before a restart after n others: ``initial_s * factor**n``, at most ``max_s``."""

    initial_s: float = 1.0
    """The time before the first restart."""
    factor: float = 2.0
    """Each wait is so many times the one before it; 1 to 100."""
    max_s: float = 60.0
    """The longest wait."""

    def delay_s(self, restarts: int) -> float:
        """The wait before the restart that follows ``restarts`` earlier ones."""
        # Beyond 2**64 the power only costs time; max_s has long won.
        return min(self.initial_s * self.factor ** min(restarts, 64), self.max_s)


class StageIn(Spec, frozen=True, kw_only=True):
    """Files that are copied into each task's working directory before its program starts."""

    source: str
    """A file or directory: an ``hdfs://`` or ``viewfs://`` URL, or on the local backend a path.
    The path may have wildcards: ``*``, ``?``, ``[a-c]``, ``{train,test}``.
    """
    to: str | None = None
    """The directory in the working directory in which the files are then. Default: the working
    directory, where a directory appears under its own name. Names are kept from the first part
    with a wildcard on.
    """
    shard: bool = False
    """Each task of the group gets a share of the files: every n-th of n tasks."""


class StageOut(Spec, frozen=True, kw_only=True):
    """A directory that is copied to where it is to stay, after a task's program has ended."""

    dir: str
    """The directory, or a file, in the working directory."""
    to: str
    """The directory that is written: an ``hdfs://`` URL, or on the local backend a path. It must
    not have files in it. ``{job}``, ``{group}``, ``{index}`` and ``{task}`` are replaced; each
    task needs a directory of its own.
    """
    always: bool = False
    """Copy also what a program has left that failed. Default: only after exit code 0."""


class CheckpointSync(Spec, frozen=True, kw_only=True):
    """A directory that a program writes, kept in sync with HDFS: uploaded while the program runs,
    restored before it starts again.
    """

    dir: str
    """The directory in the working directory."""
    to: str
    """The directory that is kept in sync with it: an ``hdfs://`` URL, or on the local backend a
    path. ``{job}``, ``{group}``, ``{index}`` and ``{task}`` are replaced. Another job that syncs
    to it goes on with what is there, once the first has ended.
    """
    interval_s: float = 10.0
    """How often the directory is looked at. A file that was not changed for this time is whole."""
    final_s: float = 600.0
    """How long the last sync after the program's end may take; then the task has failed."""


class TaskGroupSpec(Spec, frozen=True, kw_only=True):
    """The tasks of one role."""

    count: int
    """How many tasks the group has."""
    command: str | None = None
    """The group's own command; default: the job's."""
    resources: Resources = Resources()
    """What each task of the group gets."""
    overrides: dict[int, Resources] = {}
    """Other resources for single tasks, by index. What is left out is as in ``resources``."""
    tracked: bool | None = None
    """Whether the job ends when the group's tasks have ended. Default: true, except for the
    groups ps, evaluator and tensorboard, whose programs serve others and may never exit.
    """
    on_failure: OnFailure | None = None
    """What a failed task does to the job. Default: fail-job; for tensorboard, and for servers
    that have a client, ignore.
    """
    max_restarts: int = 3
    """How often a task, or with restart-job the job, may be restarted after failures of programs.
    Lost nodes and preemption do not count.
    """
    backoff: Backoff = Backoff()
    """The pauses before restarts."""
    min: int | None = None
    """The job may start with so few tasks of the group once ``timeouts.allocation_s`` has
    passed. Default: it needs all of them.
    """
    env: str | None = None
    """What ``python`` in the group's command is; default: the job's ``env``."""
    task_env: dict[str, str] = {}
    """Environment variables of the group's tasks, in addition to the job's ``task_env``."""
    task_env_overrides: dict[int, dict[str, str]] = {}
    """More, or other, environment variables for single tasks, by index."""
    framework: Framework | None = None
    """Which variables the group's programs get; default: the job's ``framework``."""
    processes: int = 1
    """How many processes each task runs: the command is started so often, with ranks of its own,
    and the first that fails ends the others. With torchrun and mpi it is what these start; only
    with them may a task in a docker image have several.
    """
    node_label: str | None = None
    """The label of the nodes for the group; default: the job's. ``""``: nodes without a label."""
    placement: Placement | None = None
    """How the group's tasks are placed on the nodes; default: the job's ``placement``."""
    docker_image: str | None = None
    """The image for the group's tasks; default: the job's, except for tensorboard. ``""``: they
    run on the node itself.
    """
    stage_in: tuple[StageIn, ...] = ()
    """Files for the group's tasks, in addition to the job's ``stage_in``."""
    stage_out: tuple[StageOut, ...] = ()
    """What the group's tasks leave, in addition to the job's ``stage_out``."""
    checkpoint_sync: CheckpointSync | None = None
    """A directory of each task of the group, kept in sync with HDFS. Each task needs a place of
    its own: with several tasks, ``to`` has ``{index}`` or ``{task}`` in it.
    """


class DockerSpec(Spec, frozen=True, kw_only=True):
    """How docker images are run."""

    runtime: DockerRuntime = DockerRuntime.STARTER
    """Who runs them. With yarn the whole container of a task is made from its image, in which
    ytf brings its own Python: it needs glibc.
    """
    engine: str | None = None
    """The engine on the nodes: docker, podman, or the path of a command that takes the same
    options. Default: docker or, where that does not answer, podman.
    """
    engine_env: dict[str, str] = {}
    """Environment variables for the engine's command (``DOCKER_HOST``, ``CONTAINERS_CONF``), in
    addition to those of the node. The tasks do not get them.
    """


class Timeouts(Spec, frozen=True, kw_only=True):
    """How long each wait of a job may last: in seconds, or as text with units (``1h30m``)."""

    allocation_s: float = 600.0
    """From the first request to the last container."""
    rendezvous_s: float = 300.0
    """From the last container to the last registered starter, and to every program started."""
    stage_in_s: float = 4 * 3600.0
    """How much longer that may take for a job with ``stage_in`` or ``checkpoint_sync``."""
    job_s: float | None = None
    """From the first master's start to the end. Default: no limit."""
    lifetime_s: float | None = None
    """From submission to the end, time in the queue included. The cluster itself enforces it.
    Default: no limit.
    """
    evaluator_s: float = 300.0
    """How long a running evaluator may go on after the tracked tasks succeeded."""
    tensorboard_s: float = 0.0
    """How long TensorBoard stays after all other tasks of a job that succeeded have ended, for
    people who look at the results. The job ends after that; ``ytf kill`` ends it at once.
    ``job_s`` does not limit this time. ``lifetime_s`` does: a cluster that ends the job then has
    killed it. Default: TensorBoard ends with the others.
    """
    after_chief_s: float | None = 30.0
    """How long other tracked tasks may go on after the group ``chief`` (or ``master``) succeeded.
    Then the job has succeeded, whatever they do, and they are stopped. ``null``: for ever; the
    job ends when all tracked tasks have ended, as it does without such a group.
    """
    idle_s: float | None = 300.0
    """How long all running programs may be idle (less than 2 % of a core each) before status and
    ``--wait`` say so. The job goes on. ``null``: it is never said.
    """
    stop_grace_s: float = 10.0
    """From SIGTERM to SIGKILL."""
    heartbeat_timeout_s: float = 30.0
    """How long a starter may be silent before its container is given up."""
    master_silence_s: float = 1800.0
    """How long a starter lives on without an answer from a master."""


class MasterSpec(Spec, frozen=True, kw_only=True):
    """What the master itself gets, and how often it may be started."""

    resources: Resources = Resources(memory=512)
    """What the master's container gets."""
    max_attempts: int = 4
    """How often the master may be started within ``attempt_window_s``."""
    attempt_window_s: float = 600.0
    """Starts of the master that are older than so many seconds do not count."""


class JobSpec(Spec, frozen=True, kw_only=True):
    """One submission, whole: what every backend needs to run the job."""

    groups: dict[str, TaskGroupSpec]
    """The task groups by name: ``ps``, ``worker``, … A name is a letter, then letters, digits
    and underscores.
    """
    command: str | None = None
    """What each task runs, by bash. A group may have its own."""
    name: str = "TensorFlow"
    """The job's name in lists and pages."""
    queue: str = "default"
    """The queue of the cluster."""
    input: str | None = None
    """``DTF_INPUT_PATH`` of the tasks: a path or URL. The local backend makes a relative path
    absolute; otherwise it is passed on as it is.
    """
    output: str | None = None
    """``DTF_OUTPUT_PATH`` of the tasks: a path or URL, treated like ``input``."""
    script: str | None = None
    """A file to ship into the tasks' working directory; ``DTF_TASK_SCRIPT`` is its name. A path
    here or, on YARN, an ``hdfs://`` URL.
    """
    files: dict[str, str] = {}
    """More files and directories to ship: name in the task's working directory → path here or,
    on YARN, ``hdfs://`` URL.
    """
    stage_in: tuple[StageIn, ...] = ()
    """Files in HDFS that every task gets into its working directory, for programs that cannot
    read HDFS. TensorBoard gets them only if its group asks for them.
    """
    stage_out: tuple[StageOut, ...] = ()
    """What every task leaves in its working directory and is to be kept, likewise."""
    checkpoint_sync: CheckpointSync | None = None
    """The checkpoint directory of a program that writes locally, kept in sync with HDFS. It is
    that of one task: the first chief, else the first worker, else the first task that is tracked.
    """
    env: str = "node"
    """What ``python`` in the commands is: ``node`` (the node's own), ``current`` (the environment
    that is active at submission), the path of a venv or conda environment, or a file from which
    one is made: ``requirements.txt`` (any ``.txt``), ``pyproject.toml``, ``uv.lock``, a pex file,
    or a tar or zip archive of an environment (conda-pack, venv-pack). A pex file or an archive
    may be in HDFS: ``hdfs://…``, ``viewfs://…``.
    """
    task_env: dict[str, str] = {}
    """Environment variables of the tasks. Names that begin with ``DTF_`` or ``YTF_``, and
    ``TF_CONFIG``, are set by ytf.
    """
    python: str | None = None
    """The path of a Python on the nodes for ytf's own processes, of the version that ytf runs on
    here. Default: ytf ships its own.
    """
    framework: Framework = Framework.AUTO
    """Which variables programs get."""
    hdfs_plugin: bool = True
    """Let TensorFlow programs open ``hdfs://`` and ``viewfs://``: by ytf's plugin, if
    ``ytf-tensorflow-hdfs`` is installed beside ytf at submission. It is left out where the
    program's environment has tensorflow-io (a docker image is not searched for it) or sets
    ``TF_PLUGGABLE_DEVICE_LIBRARY_PATH`` itself.
    """
    libhdfs: bool = False
    """Set ``CLASSPATH``, ``JAVA_HOME``, ``HADOOP_HDFS_HOME`` and ``LD_LIBRARY_PATH`` for programs
    that read HDFS with Hadoop's libhdfs, as TensorFlow up to 2.5 and tensorflow-io do. Each node
    needs Hadoop with its native libraries, and Java; each task starts about a second later. The
    JVM in the program takes SIGTERM for itself, so that a handler of the program's own does not
    run; with ``LIBHDFS_OPTS: -Xrs`` in ``task_env`` it does.
    """
    registry: str = "rest"
    """Where tasks report their addresses and the cluster spec is published: ``rest`` (the
    master), ``zk://host:port,host:port`` (a ZooKeeper), or ``zk`` (the one that
    ``hadoop.registry.zk.quorum`` names). A path after the hosts is a chroot. The znodes of jobs are
    below ``hadoop.registry.zk.root`` (default ``/registry``); ``?root=/path`` at the end says
    otherwise.
    """
    tensorboard: bool = False
    """Run TensorBoard on ``output`` as one more task. It can never fail the job."""
    client: bool = False
    """Run one more task at the submitter's terminal: group client, index 0, without a port. The
    command that submits then waits for the job's end.
    """
    client_command: str | None = None
    """What the client runs; default: ``command``."""
    servers: bool = False
    """Run a stock TensorFlow server in every task. ``command`` is then the client's."""
    docker_image: str | None = None
    """Run the commands in containers of this image, with the node's network, the task's working
    directory and the submitter's user. The image brings bash or sh, and what the commands need.
    A client at the terminal runs without it.
    """
    docker: DockerSpec = DockerSpec()
    """How docker images are run."""
    priority: int | None = None
    """A job goes before jobs of its queue that have a lower priority. A cluster may cap it."""
    tags: tuple[str, ...] = ()
    """Words to find the job by in YARN."""
    acl_view: str | None = None
    """Who else may look at the job: ``alice,bob admins`` (users, then groups) or ``*``."""
    acl_modify: str | None = None
    """Who else may kill the job, written like ``acl_view``."""
    node_label: str | None = None
    """The label of the nodes for the tasks and the master. Default: as the queue has it."""
    placement: Placement = Placement.ANY
    """How the tasks of each group are placed on the nodes."""
    gpus_per_node: int | None = None
    """How many GPUs each node has on which tasks with ``gpus`` may run: for clusters whose
    ResourceManager does not count GPUs, where a node label tells which nodes have some. ytf
    then counts those of the job itself. Where YARN counts them, this is ignored.
    """
    timeouts: Timeouts = Timeouts()
    """How long each wait of the job may last."""
    master: MasterSpec = MasterSpec()
    """What the master itself gets."""
    max_node_failures: int = 3
    """A node on which this many attempts failed (lost nodes and preemption not counted) gets no
    more containers of this job.
    """
    log_limit_mb: int = 512
    """How much of each task's stdout and of its stderr is kept, in MB."""
    task_ports: str | None = None
    """The ports for the programs' servers, as ``FIRST-LAST``: ``30000-30999``. Default: any free
    one. Each task takes one on its node.
    """
    control_ports: str | None = None
    """The ports on which ytf's own processes listen: one for each task on its node, and one for
    the master. Written like ``task_ports``.
    """
    expose_ports: bool = False
    """Let other machines connect to the servers of programs on the local backend, where only this
    machine can by default. On YARN other nodes always can.
    """

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

    def task_env_of(self, task: TaskId) -> dict[str, str]:
        """The environment variables that the spec gives one task."""
        group = self.group(task)
        own = group.task_env_overrides.get(index_of(task), {})
        return {**self.task_env, **group.task_env, **own}

    def hides_gpus(self, task: TaskId) -> bool:
        """Whether a task is not to see the GPUs of its node.

        Those without GPUs of their own are not, if others of the job have some or
        if they only serve others. A job that asks for none has what its nodes have.
        """
        if self.resources(task).gpus or _VISIBLE_GPUS in self.task_env_of(task):
            return False
        return group_of(task) in UNTRACKED_ROLES or self.asks_for_gpus()

    def asks_for_gpus(self) -> bool:
        """Whether any task gets GPUs."""
        return any(
            resources.gpus
            for group in self.groups.values()
            for resources in (group.resources, *group.overrides.values())
        )

    def node_label_of(self, group: str) -> str | None:
        """The label of the nodes that a group runs on; None: as the queue has it."""
        own = self.groups[group].node_label
        return self.node_label if own is None else own

    def docker_image_of(self, group: str) -> str | None:
        """The image that a group's tasks run in; None: they run on the node itself.

        TensorBoard is ytf's own program and has no use for the image of others.
        """
        own = self.groups[group].docker_image
        if own is None and group != TENSORBOARD:
            own = self.docker_image
        return own or None

    def stage_in_of(self, group: str) -> tuple[StageIn, ...]:
        """The files that a group's tasks get; the job's are not meant for TensorBoard."""
        own = self.groups[group].stage_in
        return own if group == TENSORBOARD else (*self.stage_in, *own)

    def stage_out_of(self, group: str) -> tuple[StageOut, ...]:
        """What is kept of what a group's tasks leave; likewise."""
        own = self.groups[group].stage_out
        return own if group == TENSORBOARD else (*self.stage_out, *own)

    def checkpoint_sync_of(self, task: TaskId) -> CheckpointSync | None:
        """The directory of a task that is kept in sync, if any."""
        own = self.groups[group_of(task)].checkpoint_sync
        if own is None and task == self.checkpoint_writer():
            return self.checkpoint_sync
        return own

    def checkpoint_writer(self) -> TaskId | None:
        """The task that writes checkpoints by convention: the first chief, else worker."""
        tracked = self.tracked_groups()
        order = [name for name in self.groups if name in CHIEF_ROLES]
        order += [name for name in self.groups if name == "worker"]
        order += [name for name in self.groups if name in tracked]
        return task_id(order[0], 0) if order else None

    def placement_of(self, group: str) -> Placement:
        """How the tasks of a group are placed on the nodes."""
        return self.groups[group].placement or self.placement

    def command_of(self, group: str) -> str | None:
        """The command of a group's tasks, None where ytf brings the program itself."""
        own = self.groups[group].command
        if group == TENSORBOARD or self.servers:
            return own
        return own or self.command

    def framework_of(self, group: str) -> Framework:
        """The framework of a group's programs, or of the client's; never ``auto``."""
        own = self.groups[group].framework if group in self.groups else None
        found = own or self.framework
        return Framework.TENSORFLOW if found is Framework.AUTO else found

    def ranked_groups(self, framework: Framework) -> list[tuple[str, int]]:
        """The groups whose processes have ranks together, in rank order, and their ``processes``.

        They are those of one framework without evaluators, a chief's before the others.
        """
        names = [
            name
            for name in self.groups
            if name not in (EVALUATOR, TENSORBOARD) and self.framework_of(name) is framework
        ]
        names.sort(key=lambda name: name not in CHIEF_ROLES)
        return [(name, self.groups[name].processes) for name in names]

    def tracked_groups(self) -> frozenset[str]:
        """The groups whose end ends the job, ``client`` among them.

        With ``servers`` only the client ends the job, if there is one.
        """
        if self.servers:
            return frozenset({CLIENT}) if self.client else frozenset()
        given = {name: spec.tracked for name, spec in self.groups.items()}
        tracked = {
            name
            for name, value in given.items()
            if value or (value is None and name not in UNTRACKED_ROLES)
        }
        if self.client:
            tracked.add(CLIENT)
        if not tracked:
            tracked = {n for n, value in given.items() if value is None and n != TENSORBOARD}
        return frozenset(tracked)

    def deciding_groups(self) -> frozenset[str]:
        """The tracked groups whose success is the job's: a chief's, and then the client's too.

        Empty if there is no tracked chief, or if ``after_chief_s`` is None: then
        all tracked tasks have to end.
        """
        tracked = self.tracked_groups()
        if self.timeouts.after_chief_s is None or not tracked & CHIEF_ROLES:
            return frozenset()
        return tracked & (CHIEF_ROLES | {CLIENT})

    def policy(self, group: str) -> OnFailure:
        """What a failure in a group does; TensorBoard can never fail a job."""
        if group == TENSORBOARD:
            return OnFailure.IGNORE
        if group == CLIENT:
            return OnFailure.FAIL_JOB
        if self.servers and self.client:
            # Only the client's exit code ends such a job, unless a group has a policy.
            return self.groups[group].on_failure or OnFailure.IGNORE
        return self.groups[group].on_failure or OnFailure.FAIL_JOB


SPECS: tuple[type[Spec], ...] = (
    JobSpec,
    TaskGroupSpec,
    StageIn,
    StageOut,
    CheckpointSync,
    Resources,
    Backoff,
    Timeouts,
    MasterSpec,
    DockerSpec,
)
"""The classes that a job spec consists of."""
