"""Makes the command line of the engine's client that runs a task in a container.

The container is as close to a native program as an engine allows: the node's
network and shared memory, the task's working directory under its own path, the
submitter's user, and nothing of the node's environment that belongs to the node.
"""

from __future__ import annotations

import os

from ytf.starter.engine import LABEL, NODE_AND_USER_LABEL, PODMAN, is_client_setting
from ytf.starter.runner import NotReadyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Sequence

    from ytf.starter.engine import Engine
    from ytf.starter.gpus import TakenGpus

MOUNTED = (b"HADOOP_HOME", b"HADOOP_CONF_DIR", b"JAVA_HOME")
"""Variables of the node whose directories the program gets, read-only."""
PASSED = (
    b"HADOOP_USER_NAME", b"HADOOP_TOKEN_FILE_LOCATION", b"CONTAINER_ID", b"NM_HOST", b"NM_PORT",
    b"NM_HTTP_PORT", b"LOCAL_DIRS", b"LOG_DIRS", b"APPLICATION_WEB_PROXY_BASE", b"USER", b"LOGNAME",
)  # fmt: skip
"""Variables that a container of YARN has, and that are true in the program's container, too."""
DATA = (b"DTF_INPUT_PATH", b"DTF_OUTPUT_PATH")
_LIBHDFS = (b"HADOOP_HDFS_HOME", b"JAVA_HOME")
_SYSTEM = (b"/", b"/usr", b"/usr/local")
"""Directories that an image has, too, and needs."""

# The first process below the container's init. It outlives the program's shell while others
# still use their grace period: when it ends, the kernel kills them all. Traps are not inherited.
SHELL = """\
trap 'ending=1' TERM; trap : HUP INT QUIT USR1 USR2
if command -v bash >/dev/null 2>&1; then bash -c "$1"; else sh -c "$1"; fi
code=$?
if [ $code = 137 ]; then
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r $file ] && while read -r key count; do
      [ "$key" = oom_kill ] && [ "$count" -gt 0 ] && echo "$2" >&2
    done <$file
  done
fi
while [ -n "$ending" ] && set -- /proc/[0-9]* && [ $# -gt 2 ]; do sleep 0.1; done
exit $code
"""


class Mount:
    """A directory or file of the node that the container has under the same path."""

    __slots__ = ("path", "read_only")

    def __init__(self, path: str, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only


class TaskContainer:
    """What an engine is asked to run, whoever the engine is.

    ``env`` are the program's variables. ``uid``, ``gid`` and ``groups`` are the
    submitter's, ``cgroup`` is the parent for the container's cgroup. It gets
    no ``gpus`` but these. ``mark`` and ``node_and_user`` say who started it
    (``ytf.starter.orphans``).
    """

    __slots__ = (
        "cgroup", "command", "env", "gid", "gpus", "groups", "image", "mark", "memory_mb",
        "mounts", "name", "node_and_user", "uid", "vcores", "workdir",
    )  # fmt: skip

    def __init__(
        self,
        *,
        name: str,
        image: str,
        command: str,
        env: Mapping[bytes, bytes],
        workdir: str,
        mounts: Sequence[Mount],
        mark: str,
        node_and_user: str,
        memory_mb: int,
        vcores: int,
        gpus: Optional[TakenGpus] = None,
        cgroup: Optional[str] = None,
        uid: int,
        gid: int,
        groups: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.image = image
        self.command = command
        self.env = env
        self.workdir = workdir
        self.mounts = mounts
        self.mark = mark
        self.node_and_user = node_and_user
        self.memory_mb = memory_mb
        self.vcores = vcores
        self.gpus = gpus
        self.cgroup = cgroup
        self.uid = uid
        self.gid = gid
        self.groups = groups


def run_arguments(engine: Engine, task: TaskContainer) -> List[str]:
    """Return the client's words: ``run``, options, the image and its command.

    Without ``--rm``: the container's record is needed after its end.
    Values of variables are in the client's own environment (see
    :func:`run_environment`) and not on its command line, which everybody on the
    node can read. Raises ``NotReadyError`` for a path that no client can be told.
    """
    words = [
        "run", "--name", task.name, "--label", "%s=%s" % (LABEL, task.mark),
        "--label", "%s=%s" % (NODE_AND_USER_LABEL, task.node_and_user),
        "--init", "--sig-proxy=false", "--pull=never", "--log-driver=none",
        "--network=host", "--ipc=host", "--pids-limit=-1",
        "--security-opt=no-new-privileges",
        "--memory=%dm" % task.memory_mb,
        "--cpus=%d" % min(task.vcores, os.cpu_count() or task.vcores),
        "--workdir", task.workdir, "--entrypoint=sh",
    ]  # fmt: skip
    if os.path.exists("/sys/fs/selinux/enforce"):
        # Its labels would keep the container from the mounts.
        words.append("--security-opt=label=disable")
    words += _user(engine, task)
    if task.cgroup is not None and engine.cgroupfs and not engine.rootless:
        words += ["--cgroup-parent", task.cgroup]
    if task.gpus is not None:
        words += gpu_arguments(engine, task.gpus)
    for mount in [Mount(task.workdir, False), *task.mounts]:
        words += _mount(mount)
    for name, value in sorted(task.env.items()):
        words += ["--env", os.fsdecode(name + b"=" + value if is_client_setting(name) else name)]
    out_of_memory = (
        "ytf: a process of this task was killed: together they had used all of the %d MB that "
        "the task had asked for; ask for more with -m" % task.memory_mb
    )
    return [*words, task.image, "-c", SHELL, "ytf-task", task.command, out_of_memory]


def run_environment(engine: Engine, task: TaskContainer) -> Dict[bytes, bytes]:
    """Return the variables of the client that runs the task."""
    ours = {name: value for name, value in task.env.items() if not is_client_setting(name)}
    return {**engine.env, **ours}


def _user(engine: Engine, task: TaskContainer) -> List[str]:
    """Have the program's files belong to the submitter on the node, whoever runs the engine."""
    if engine.rootless and engine.kind != PODMAN:
        return ["--user=0:0"]  # the root of a rootless docker is its user
    words = ["--user=%d:%d" % (task.uid, task.gid)]
    if engine.rootless:
        return ["--userns=keep-id", *words]
    if engine.remapped:
        words.append("--userns=host")
    return words + ["--group-add=%d" % group for group in task.groups if group != task.gid]


def gpu_arguments(engine: Engine, gpus: TakenGpus) -> List[str]:
    """Return the words that pass these GPUs through. Raises ``NotReadyError``."""
    if gpus.is_amd:
        unknown = [gpu.name for gpu in gpus.gpus if not gpu.device]
        if unknown:
            raise NotReadyError(
                "this node's kernel does not tell the device file of GPU %s, without which it "
                "cannot be given to a container" % ", ".join(unknown)
            )
        devices = ["/dev/kfd", *(gpu.device for gpu in gpus.gpus)]
        return ["--device=%s" % device for device in devices]
    if engine.kind == PODMAN:
        # CDI: only newer tools make names of the unique ones, all of them names of the numbers.
        return ["--device=nvidia.com/gpu=%d" % gpu.index for gpu in gpus.gpus]
    # The client reads it as a line of CSV.
    return ['--gpus="device=%s"' % ",".join(gpu.name for gpu in gpus.gpus)]


def gpu_variables(engine: Engine, gpus: TakenGpus) -> Dict[str, str]:
    """Return the variables with which a container's program sees its GPUs: it has no others."""
    variables = gpus.variables(alone=True)
    if engine.kind == PODMAN and not gpus.is_amd:
        # What images say there would let a hook of NVIDIA's add the others.
        variables["NVIDIA_VISIBLE_DEVICES"] = "void"
    return variables


def _mount(mount: Mount) -> List[str]:
    path, mode = mount.path, ":ro" if mount.read_only else ""
    if ":" not in path:
        return ["--volume", "%s:%s%s" % (path, path, mode)]
    if "," not in path:
        mode = ",readonly" if mount.read_only else ""
        return ["--mount", "type=bind,source=%s,target=%s%s" % (path, path, mode)]
    raise NotReadyError(
        "%s cannot be mounted in a container: its path has both a colon and a comma" % path
    )


def container_name(container: str, attempt: str) -> str:
    """Return the engine's name for an attempt's program: made from the id of our container."""
    safe = "".join(c if c.isascii() and c.isalnum() else "_" for c in container)
    return "ytf-%s-%s" % (safe, attempt)


def program_variables(
    given: Mapping[bytes, bytes], task_variables: Sequence[str], workdir: str
) -> Dict[bytes, bytes]:
    """Return what the program inherits: the task's variables, and what is true in its container.

    Everything else of the node (``PATH``, ``LD_LIBRARY_PATH``, ``PYTHON*`` …)
    is about programs that the image does not have.
    """
    names = {os.fsencode(name) for name in task_variables}
    names.update(PASSED)
    names.update(name for name in MOUNTED if os.path.isdir(given.get(name, b"")))
    result = {name: value for name, value in given.items() if name in names}
    result.setdefault(b"HOME", os.fsencode(workdir))
    return result


def find_mounts(
    node: Mapping[bytes, bytes],
    env: Mapping[bytes, bytes],
    workdir: str,
    read_only: Sequence[str] = (),
) -> List[Mount]:
    """Return what to mount besides the working directory; makes a missing output directory.

    ``node`` are the variables of the starter's container, ``env`` the program's;
    ``read_only`` are further directories that it is to read.
    """
    found: Dict[str, Mount] = {}

    def add(path: bytes, read_only: bool) -> None:
        text = os.path.normpath(os.fsdecode(path))
        if text != workdir and os.path.exists(text):
            found.setdefault(text, Mount(text, read_only))

    for name in DATA:
        data = local_path(env.get(name, b""))
        if data is not None:
            if name == b"DTF_OUTPUT_PATH":
                # An engine would make it as root.
                try:
                    os.makedirs(data, exist_ok=True)
                except OSError as exc:
                    raise NotReadyError("the output path %s: %s" % (data, exc)) from exc
            add(os.fsencode(data), False)
    for name in MOUNTED:
        if os.path.isdir(node.get(name, b"")):
            add(node[name], True)
    for path in read_only:
        add(os.fsencode(path), True)
    # The files that YARN localizes are links to these.
    for app in node.get(b"LOCAL_DIRS", b"").split(b","):
        if app.startswith(b"/"):
            user = os.path.dirname(os.path.dirname(app))
            public = os.path.dirname(os.path.dirname(user))
            for folder in (app, user, public):
                add(os.path.join(folder, b"filecache"), True)
    return list(found.values())


def libhdfs_folders(env: Mapping[bytes, bytes], task_variables: Sequence[str]) -> List[str]:
    """Return the directories of Hadoop and Java on the node that ``starter.libhdfs`` has found.

    Those that the task's own variables name are in its image.
    """
    names = {os.fsencode(name) for name in task_variables}
    found = [env[name] for name in _LIBHDFS if name in env and name not in names]
    return [os.fsdecode(path) for path in found if os.path.normpath(path) not in _SYSTEM]


def local_path(value: bytes) -> Optional[str]:
    """Return the absolute path on the node that an input or output path is; None for others."""
    text = os.fsdecode(value)
    if text.startswith("file:/"):
        text = "/" + text[len("file:/") :].lstrip("/")
    return text if text.startswith("/") and text.strip("/") else None


def yarn_cgroup(container: str, table: str) -> Optional[str]:
    """Return the parent cgroup for a program's container; None where YARN made no cgroup.

    ``table`` is the content of ``/proc/self/cgroup``. On cgroup v2 a group with
    processes has no groups below it, so there it is that of all YARN's containers.
    """
    for line in table.splitlines():
        number, controllers, path = line.split(":", 2)
        if os.path.basename(path) != container:
            continue
        if number == "0":
            return os.path.dirname(path)
        if {"memory", "cpu"} & set(controllers.split(",")):
            return path
    return None
