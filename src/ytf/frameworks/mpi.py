"""MPI: the variables with which ``mpirun`` finds the hostfile, and its known failures.

``mpirun`` is run by one task, and starts the other processes itself: on its own
node, or over ssh. Every task has the hostfile (``YTF_HOSTFILE``); with this
framework Open MPI uses it without an option.
"""

from __future__ import annotations

from ytf.frameworks.api import FrameworkProfile, Hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import TaskContext

_HINTS = (
    Hint(
        "the hostfile has fewer slots than the processes asked for: slots are the tasks times "
        "their --processes; raise one of them, or lower -n",
        r"There are not enough slots available in the system",
    ),
    Hint(
        "mpirun starts processes on other nodes over ssh, and could not: it has to be installed "
        "there and let you in without a password; or have all tasks on one node (--placement "
        "pack)",
        r"unable to reliably start one or more daemons|An? (ORTE|PRTE) daemon has unexpectedly "
        r"failed|none of the specified launch agents|plm_rsh_agent|ssh: connect to host"
        r"|Host key verification failed|Permission denied \(publickey",
    ),
    Hint(
        "Open MPI does not run as root unless it is told to: OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (--task_env)",
        r"mpi(run|exec)\S* has detected an attempt to run as root",
    ),
    Hint(
        "a process of mpirun ended first: its own lines above tell why",
        r"mpi(run|exec)\S* (noticed that process rank \d+|detected that one or more processes)"
        r"|MPI_ABORT was invoked",
    ),
)


class MpiProfile(FrameworkProfile):
    """Programs that ``mpirun`` starts."""

    starts_processes = True
    hints = _HINTS

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return Open MPI's names for the default hostfile: version 4 and older, then newer."""
        names = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
        return dict.fromkeys(names, task.hostfile)


PROFILE = MpiProfile()
