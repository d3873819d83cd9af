"""torchrun: where its agents meet (a c10d rendezvous at rank 0), and its known failures.

``torchrun`` reads an option that is not on its command line from ``PET_<OPTION>``.
The agent of the first task keeps the rendezvous' store on the port of that
task; it is told so, as guessing by host names fails where two tasks share a node.
"""

from __future__ import annotations

from ytf.frameworks.api import FrameworkProfile, Hint
from ytf.frameworks.ranks import ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import TaskContext

_HINTS = (
    Hint(
        "torchrun of PyTorch 1 does not work on Python 3.11 or newer as it is: give it the options "
        "--redirects 9:1 --tee 9:1, or use PyTorch 2",
        r"elastic/multiprocessing/api\.py\", line \d+, in to_map",
        r"^AttributeError: 'NoneType' object has no attribute 'get'",
    ),
    Hint(
        "torch.distributed.launch gives scripts an option {option}: start them with torchrun, "
        "and read the variable LOCAL_RANK",
        r"error: unrecognized arguments:.* (?P<option>--local[_-]rank)\b",
    ),
    Hint(
        "the agent of the first task could not be reached, or ended first: its log (ytf logs) "
        "tells why. Give torchrun no --rdzv_endpoint or --master_addr of your own: ytf sets both",
        r"RendezvousConnectionError: The connection to the C10d store has failed",
    ),
    Hint(
        "not all agents came to the rendezvous in time: give torchrun no --nnodes of your own, "
        "and see the logs of the other tasks (ytf logs)",
        r"RendezvousTimeoutError",
    ),
    Hint(
        "another agent had closed the rendezvous: its task failed or ended first, and its log "
        "(ytf logs) tells why. With restarts of torchrun's own (--max_restarts) all tasks need "
        "on_failure: restart-job",
        r"RendezvousClosedError",
    ),
)


class TorchrunProfile(FrameworkProfile):
    """``torchrun`` (``python -m torch.distributed.run``), once in each task."""

    starts_processes = True
    interface_variables = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    hints = _HINTS

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return the options of ``torchrun`` that a command line need not have then."""
        if task.port is None:
            return {}
        ranks = ranks_of(task, members)
        return {
            "PET_NNODES": str(len(ranks.addresses)),
            "PET_NPROC_PER_NODE": str(ranks.local_size),
            "PET_NODE_RANK": str(ranks.node),
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": ranks.addresses[0],
            # An agent of an earlier run that is still alive must not meet those of this one.
            "PET_RDZV_ID": "%s.%d" % (task.job, task.generation),
            "PET_RDZV_CONF": "is_host=%d" % (ranks.node == 0),
            # What rank 0 tells the others as MASTER_ADDR; by default its node's name, which
            # may mean nothing elsewhere.
            "PET_LOCAL_ADDR": task.host,
            # For rdzv_backend static.
            "PET_MASTER_ADDR": ranks.first_host,
            "PET_MASTER_PORT": str(ranks.first_port),
        }


PROFILE = TorchrunProfile()
