"""Whether nodes can pass on what a job's tasks are told, asked before anything is submitted."""

from __future__ import annotations

from ytf.backends.yarn.baggage import StarterBaggage
from ytf.backends.yarn.contexts import Contexts
from ytf.errors import SpecError
from ytf.master.commands import LaunchStarter
from ytf.master.launch import make_launch
from ytf.specs.check import MAX_STRING
from ytf.specs.job import JobSpec
from ytf.specs.names import ContainerId, JobId, NodeId, task_id
from ytf.specs.units import MAX_INT

# What only a master will know, as long as it can get.
_ID = "application_1700000000000_1000000000"
_CONTAINER = "container_e1000_1700000000000_1000000000_100_1000000000"
_MASTER = f"http://{'m' * 253}:65535"


def check_lengths(contexts: Contexts, spec: JobSpec, baggage: StarterBaggage) -> None:
    """Raise ``SpecError`` for a group whose starters no node could start.

    One variable carries all of a task's command and variables, packed: so all
    of them together must fit where the spec's own check looks at each alone.
    A node that cannot pass it on starts the container in vain, and silently.
    """
    for name, group in spec.groups.items():
        command = LaunchStarter(
            container=ContainerId(_CONTAINER),
            task=task_id(name, group.count - 1),
            attempt=MAX_INT,
            generation=MAX_INT,
            node=NodeId(""),
        )
        launch = make_launch(spec, JobId(_ID), _MASTER, command)
        told = contexts.starter(launch, baggage).environment
        longest = max(len(f"{variable}={value}") for variable, value in told.items())
        if longest >= MAX_STRING:
            raise SpecError(
                f"the command and the variables of its tasks take {longest / 1024:.0f} KiB, as "
                f"they travel, and {MAX_STRING // 1024} KiB can be passed to a program",
                where=f"groups.{name}",
                hint="put it in a file and ship that",
            )
