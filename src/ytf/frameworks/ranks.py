"""Numbers the processes of a job: which rank each has; and the hostfile, with the hosts of all.

Ranks are dense and begin at 0. They follow the groups in the order of
``TaskContext.ranked``, within a group the index, within a task the local rank.
So every starter finds the same numbers from the same cluster spec.
"""

from __future__ import annotations

from ytf.wire.address import join_address, split_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import TaskContext


class Ranks:
    """The tasks that share one rank order, and this task's position in it.

    ``addresses`` are their ``host:port`` in the order of ranks, ``processes`` how
    many processes each has, and ``node`` is this task's position.
    """

    __slots__ = ("addresses", "node", "processes")

    def __init__(self, addresses: List[str], processes: List[int], node: int) -> None:
        self.addresses = addresses
        self.processes = processes
        self.node = node

    @property
    def size(self) -> int:
        """How many processes there are in all tasks."""
        return sum(self.processes)

    @property
    def first(self) -> int:
        """The rank of the own task's first process."""
        return sum(self.processes[: self.node])

    @property
    def local_size(self) -> int:
        """How many processes the own task has."""
        return self.processes[self.node]

    @property
    def first_host(self) -> str:
        """The host of rank 0. An IPv6 address is without brackets."""
        return split_address(self.addresses[0])[0]

    @property
    def first_port(self) -> int:
        """The port of the task that has rank 0."""
        return split_address(self.addresses[0])[1]


def ranks_of(task: TaskContext, members: Mapping[str, List[str]]) -> Ranks:
    """Return the ranks of a cluster spec, as the task sees them.

    A task that is not numbered with others (an evaluator, TensorBoard, one whose
    group the spec lacks) is alone. ``task`` must have a port.
    """
    groups = [name for name, _ in task.ranked]
    if task.group not in groups or task.index >= len(members.get(task.group, ())):
        assert task.port is not None
        return Ranks([join_address(task.host, task.port)], [task.processes], 0)
    addresses: List[str] = []
    processes: List[int] = []
    node = 0
    for group, count in task.ranked:
        if group == task.group:
            node = len(addresses) + task.index
        hosts = members.get(group, ())
        addresses += hosts
        processes += [count] * len(hosts)
    return Ranks(addresses, processes, node)


def hostfile(ranks: Ranks) -> str:
    """Return the hosts as Open MPI, DeepSpeed and Horovod read them: ``host slots=n`` lines.

    Each host has one line, in the order of its first rank, and as many slots as
    there are processes on it.
    """
    slots: Dict[str, int] = {}
    for address, count in zip(ranks.addresses, ranks.processes):
        host = split_address(address)[0]
        slots[host] = slots.get(host, 0) + count
    return "".join("%s slots=%d\n" % item for item in slots.items())
