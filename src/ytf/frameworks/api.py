"""Defines what ytf needs to know of a framework, and finds the file that says it by its name."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Sequence, Tuple

HOLD = "hold"
"""Port policy: the starter keeps the port bound; the program binds it with SO_REUSEPORT."""
RELEASE = "release"
"""Port policy: the starter closes the port just before the program starts."""
SERVE_HOROVOD = "serve_horovod"
"""Port policy: on the port of the task with rank 0, the starter serves Horovod's rendezvous."""

NOT_PEERS = ("tensorboard", "client")
"""Groups whose addresses are not given to programs."""


class TaskContext:
    """One attempt of a task, as far as its program may have to know it.

    ``job`` and ``container`` are ids. ``port`` is None for a task without one.
    ``port_is_held``: the policy is ``hold``, so the program has to bind with
    SO_REUSEPORT. ``processes`` is how many processes the task consists of, and
    ``ranked`` are the groups whose processes are numbered together, in this
    order, each with the number of processes of its tasks. A task whose group is
    not among them is numbered alone. ``hostfile`` is the path of a file with the
    hosts of all these, one on a line. ``interface`` is the network interface by
    which peers reach this node, if it is known.
    """

    __slots__ = (
        "attempt", "container", "generation", "gpus", "group", "host", "hostfile", "index",
        "interface", "job", "port", "port_is_held", "processes", "ranked",
    )  # fmt: skip

    def __init__(
        self,
        *,
        job: str,
        container: str,
        group: str,
        index: int,
        attempt: int,
        generation: int,
        host: str,
        port: Optional[int],
        port_is_held: bool,
        processes: int = 1,
        ranked: Sequence[Tuple[str, int]] = (),
        gpus: int = 0,
        hostfile: str = "",
        interface: Optional[str] = None,
    ) -> None:
        self.job = job
        self.container = container
        self.group = group
        self.index = index
        self.attempt = attempt
        self.generation = generation
        self.host = host
        self.port = port
        self.port_is_held = port_is_held
        self.processes = processes
        self.ranked = ranked
        self.gpus = gpus
        self.hostfile = hostfile
        self.interface = interface


class Hint:
    """A known way for a program to end, and what its user should do about it.

    It fits if every regular expression of ``patterns`` is found in the end of
    the program's stderr, and the exit code and the signal are the given ones.
    ``text`` may use the named groups of the patterns: ``{module}``.
    """

    __slots__ = ("exit_code", "patterns", "signal", "text")

    def __init__(
        self,
        text: str,
        *patterns: str,
        exit_code: Optional[int] = None,
        signal: Optional[int] = None,
    ) -> None:
        self.text = text
        self.patterns = patterns
        self.exit_code = exit_code
        self.signal = signal


class FrameworkProfile:
    """How programs of one framework are run. Subclasses change what differs.

    ``port_policy`` is ``HOLD``, ``RELEASE`` or ``SERVE_HOROVOD``. ``default_env``
    are variables that every task gets. ``threads`` maps variables that limit a
    program's threads to the fewest it works with. ``hints`` are in order: the
    first that fits counts. ``several_processes``: a task may consist of more
    than one process. ``starts_processes``: the program starts them itself.
    ``interface_variables`` tell a program on which network interface to listen,
    where it would otherwise guess from the node's own name.
    """

    port_policy = RELEASE
    several_processes = True
    starts_processes = False
    interface_variables: Tuple[str, ...] = ()
    default_env: Mapping[str, str] = {}
    threads: Mapping[str, int] = {"OMP_NUM_THREADS": 1}
    hints: Tuple[Hint, ...] = ()

    def defaults(self, vcores: int) -> Dict[str, str]:
        """Return variables for a process with so many cores; the user's or the node's own win."""
        threads = {name: str(max(vcores, least)) for name, least in self.threads.items()}
        return {**self.default_env, **threads}

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return the framework's own variables for a task of this cluster.

        ``members`` is the cluster spec: group → ``host:port`` by index. These
        variables replace what the user set. Runs in the starter.
        """
        return {}

    def process_variables(
        self, task: TaskContext, members: Mapping[str, List[str]], local_rank: int
    ) -> Dict[str, str]:
        """Return the variables that differ between the processes of a task.

        ``local_rank`` numbers the processes of the task, from 0. Called for each
        that the starter starts. Runs in the starter.
        """
        return {}


def set_variables(name: str) -> List[str]:
    """Return the names of the variables that a framework's programs are given, whatever others set.

    Raises ``UnknownFrameworkError`` if there is no such framework.
    """
    profile = by_name(name)
    task = TaskContext(
        job="job", container="container", group="worker", index=0, attempt=1, generation=1,
        host="host", port=1, port_is_held=False, ranked=[("worker", 1)],
    )  # fmt: skip
    members = {"worker": ["host:1"]}
    return [*profile.variables(task, members), *profile.process_variables(task, members, 0)]


_NOT_FRAMEWORKS = ("__init__", "api", "hints", "ranks")


class UnknownFrameworkError(ValueError):
    """No file of this package describes a framework of that name."""


def names() -> List[str]:
    """The names of all frameworks, in alphabetical order."""
    files = (os.path.splitext(name) for name in os.listdir(os.path.dirname(__file__)))
    return sorted(stem for stem, end in files if end == ".py" and stem not in _NOT_FRAMEWORKS)


def by_name(name: str) -> FrameworkProfile:
    """Return the profile of a framework; only its own file is loaded.

    Raises ``UnknownFrameworkError`` if there is no such framework.
    """
    if name not in names():
        raise UnknownFrameworkError(
            "there is no framework %r: ytf knows %s" % (name, ", ".join(names()))
        )
    module = __import__("ytf.frameworks." + name, fromlist=["PROFILE"])
    profile: FrameworkProfile = module.PROFILE
    return profile
