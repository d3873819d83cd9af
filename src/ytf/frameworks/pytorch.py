"""PyTorch: the variables of ``init_process_group`` (env://), and its known failures.

Rank 0 opens its store on the port of its task, so that port is released to it.
Programs that ``torchrun`` starts are ``ytf.frameworks.torchrun``.
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
        "the program wants the variable {name}, which --framework pytorch sets",
        r"using env:// rendezvous: environment variable (?P<name>\w+) expected, but not set",
    ),
    Hint(
        "there is no GPU for the backend nccl: ask for GPUs (--task_gpus), or use "
        "init_process_group('gloo')",
        r"ProcessGroupNCCL is only supported with GPUs, no GPUs found"
        r"|Distributed package doesn't have NCCL built in",
    ),
    Hint(
        "gloo does not know on which network to listen, as the node's own name has no address "
        "there: name its interface with --task_env GLOO_SOCKET_IFNAME=eth0",
        r"Unable to (resolve hostname to a \(local\) address|find address for)",
    ),
    Hint(
        "some processes have not called init_process_group in time: all {size} must. Look at "
        "the logs of the others (ytf logs); a slow import needs a longer timeout=",
        r"Timed out initializing process group in store based barrier on rank: \d+"
        r".*world_size=(?P<size>\d+)",
    ),
    Hint(
        "some processes have not come to init_process_group in time: all must. Look at the logs of "
        "the others (ytf logs); a slow import needs a longer timeout=",
        r"^RuntimeError: Socket Timeout$|^torch\.distributed\.DistStoreError: (Socket Timeout|wait "
        r"timeout)",
    ),
    Hint(
        "the store of rank 0 could not be reached: its program had not opened it in time "
        "(ytf logs shows what it did), or a firewall is between the nodes",
        r"The client socket has (failed to connect to any network address|timed out)",
    ),
    Hint(
        "another process has MASTER_PORT: let init_process_group take it from the environment, "
        "and call it once in a process",
        r"The server socket has failed to (listen on|bind to) any local network address",
    ),
    Hint(
        "another process of the job ended first, or could not be reached: the log of the task "
        "that failed first tells why. If none failed, gloo may use the wrong network: name its "
        "interface with --task_env GLOO_SOCKET_IFNAME=eth0",
        r"gloo/transport/tcp/\w+\.cc:\d+\] .*(Connection (closed by peer|reset by peer|refused)"
        r"|Timed out waiting|Read timeout|Broken pipe)|Gloo connectFullMesh failed",
    ),
    Hint(
        "NCCL lost a peer or the network: the log of the task that failed first tells why, "
        "NCCL_DEBUG=INFO (--task_env) shows more, NCCL_SOCKET_IFNAME names the interface to use",
        r"ncclSystemError|ncclRemoteError|ncclUnhandledCudaError|NCCL communicator was aborted"
        r"|Watchdog caught collective operation timeout",
    ),
    Hint(
        "a parameter of the model took no part in the loss: pass find_unused_parameters=True to "
        "DistributedDataParallel, or use all outputs of forward",
        r"Expected to have finished reduction in the prior iteration before starting a new one",
    ),
    Hint(
        "the workers of the DataLoader need more of /dev/shm than the node gives: use fewer "
        "(num_workers), or torch.multiprocessing.set_sharing_strategy('file_system')",
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (is killed by signal: Bus error|exited "
        r"unexpectedly)|unable to (open|write to|resize) (shared memory object|file </torch_)",
    ),
    Hint(
        "the GPU has too little memory for it: use smaller batches, or a larger GPU",
        r"CUDA out of memory",
    ),
)


class PyTorchProfile(FrameworkProfile):
    """PyTorch programs, of which the starter runs one for each process of a task."""

    interface_variables = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    hints = _HINTS

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return what ``torchrun`` tells all processes of a node, under the same names."""
        if task.port is None:
            return {}
        ranks = ranks_of(task, members)
        return {
            "MASTER_ADDR": ranks.first_host,
            "MASTER_PORT": str(ranks.first_port),
            "WORLD_SIZE": str(ranks.size),
            "LOCAL_WORLD_SIZE": str(ranks.local_size),
            "GROUP_RANK": str(ranks.node),
            "GROUP_WORLD_SIZE": str(len(ranks.addresses)),
            # PyTorch Lightning's name for it.
            "NODE_RANK": str(ranks.node),
        }

    def process_variables(
        self, task: TaskContext, members: Mapping[str, List[str]], local_rank: int
    ) -> Dict[str, str]:
        """Return ``RANK`` and ``LOCAL_RANK``."""
        if task.port is None:
            return {}
        rank = ranks_of(task, members).first + local_rank
        return {"RANK": str(rank), "LOCAL_RANK": str(local_rank)}


PROFILE = PyTorchProfile()
