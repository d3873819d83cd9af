"""JAX: what a plain ``jax.distributed.initialize()`` finds, and its known failures.

JAX reads the coordinator's address from a variable of its own, but the number
of processes and the own one only from the cluster systems that it knows. Of
those, Open MPI is the one that is described by variables alone.
"""

from __future__ import annotations

from ytf.frameworks.api import HOLD, FrameworkProfile, Hint
from ytf.frameworks.ranks import ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import TaskContext

_HINTS = (
    Hint(
        "jax.distributed.initialize() found no cluster: --framework jax gives it one (to a "
        "JAX that knows Open MPI)",
        r"^ValueError: (coordinator_address should be defined|Number of processes must be defined"
        r"|The process id of the current process must be defined)",
    ),
    Hint(
        "call jax.distributed.initialize() first of all: an import or a line before it has used "
        "JAX already",
        r"jax\.distributed\.initialize\(\) must be called before any JAX calls",
    ),
    Hint(
        "this JAX was told to use no collectives between CPUs: set "
        "jax_cpu_collectives_implementation to gloo (JAX_CPU_COLLECTIVES_IMPLEMENTATION=gloo)",
        r"Multiprocess computations aren't implemented on the CPU backend",
    ),
    Hint(
        "not all processes came to jax.distributed.initialize() in time: see the logs of the "
        "others (ytf logs). Where HTTP_PROXY or similar variables are set, unset them: gRPC would "
        "go through that proxy",
        r"DEADLINE_EXCEEDED",
        r"/RegisterTask\b",
    ),
    Hint(
        "another process of the job ended first: the log of the task that failed first tells why",
        r"JAX distributed service detected fatal errors"
        r"|The following tasks are unhealthy"
        r"|coordination (service|agent).*(heartbeat timeout|was unhealthy|set to ERROR)"
        r"|Another process (may have )?crashed",
    ),
    Hint(
        "the device has too little memory for it: use smaller arrays. JAX takes three quarters "
        "of a GPU at its start: several processes on one GPU want "
        "XLA_PYTHON_CLIENT_MEM_FRACTION (--task_env)",
        r"RESOURCE_EXHAUSTED: Out of memory",
    ),
)


class JaxProfile(FrameworkProfile):
    """JAX with several processes."""

    # The coordinator is a gRPC server, which binds with SO_REUSEPORT.
    port_policy = HOLD
    hints = _HINTS

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return where the coordinator is, and how many processes there are."""
        if task.port is None:
            return {}
        ranks = ranks_of(task, members)
        return {
            "JAX_COORDINATOR_ADDRESS": ranks.addresses[0],
            # Not read by JAX 0.10; for programs that pass them to initialize().
            "JAX_NUM_PROCESSES": str(ranks.size),
            # That it is there makes JAX read the others. Of its value JAX would only take the
            # coordinator's address, which it has.
            "OMPI_MCA_orte_hnp_uri": "0.0;tcp://" + ranks.addresses[0],
            "OMPI_COMM_WORLD_SIZE": str(ranks.size),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks.local_size),
        }

    def process_variables(
        self, task: TaskContext, members: Mapping[str, List[str]], local_rank: int
    ) -> Dict[str, str]:
        """Return which process this is, and which of the task's GPUs are its own."""
        if task.port is None:
            return {}
        rank = str(ranks_of(task, members).first + local_rank)
        made = {
            "JAX_PROCESS_ID": rank,
            "OMPI_COMM_WORLD_RANK": rank,
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        }
        share = task.gpus // task.processes
        if share > 0:
            # Under Open MPI a process would take one GPU only.
            own = range(local_rank * share, (local_rank + 1) * share)
            made["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, own))
        return made


PROFILE = JaxProfile()
