"""Horovod with gloo: the variables that ``horovodrun`` sets, and its known failures.

``horovodrun`` starts a small HTTP server at which the processes learn of each
other. Here the starter of the first task serves it (``starter/horovod_rendezvous``)
on the port that the task registers, so nothing has to be started over ssh.
"""

from __future__ import annotations

from ytf.frameworks.api import SERVE_HOROVOD, FrameworkProfile, Hint
from ytf.frameworks.ranks import ranks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping

    from ytf.frameworks.api import TaskContext

_HINTS = (
    Hint(
        "this Horovod was built without {extension}: build it with HOROVOD_WITH_GLOO=1 and "
        "HOROVOD_WITH_PYTORCH=1 or HOROVOD_WITH_TENSORFLOW=1 (`horovodrun --check-build` shows "
        "what it has)",
        r"Extension (?P<extension>horovod\.\w+) has not been built",
    ),
    Hint(
        "this Horovod has no gloo, or was told to use MPI: build it with HOROVOD_WITH_GLOO=1, "
        "and leave HOROVOD_CONTROLLER to ytf",
        r"(?i)Gloo[^\n]* has not been (built|compiled)|HOROVOD_CONTROLLER[^\n]*not supported"
        r"|Horovod (was )?not built with gloo",
    ),
    Hint(
        "not all processes called hvd.init() in time: see the logs of the others (ytf logs); "
        "slow imports need HOROVOD_GLOO_TIMEOUT_SECONDS (--task_env), which is 30 by default",
        r"Wait timeout after \d+ seconds for key\(s\)",
    ),
    Hint(
        "the rendezvous at the first task was not reached: that task has ended, or a firewall is "
        "between the nodes",
        r"HTTP GET request failed too many times|^RuntimeError: HTTP request failed\.",
    ),
    Hint(
        "horovodrun cannot start anything here: ytf has started the processes already; let the "
        "command be the program itself (python train.py)",
        r"^horovodrun: |horovod/runner/launch\.py",
    ),
    Hint(
        "another process of the job ended first, or could not be reached: the log of the task "
        "that failed first tells why",
        r"HorovodInternalError|Horovod has been shut down"
        r"|horovod/third_party/gloo/gloo/transport/tcp/\w+\.cc",
    ),
)


class HorovodProfile(FrameworkProfile):
    """Horovod, of which the starter runs one for each process of a task."""

    port_policy = SERVE_HOROVOD
    interface_variables = ("HOROVOD_GLOO_IFACE",)
    hints = _HINTS

    def variables(self, task: TaskContext, members: Mapping[str, List[str]]) -> Dict[str, str]:
        """Return where the rendezvous is, and how many processes there are."""
        if task.port is None:
            return {}
        ranks = ranks_of(task, members)
        return {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": ranks.first_host,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(ranks.first_port),
            # It only tells Horovod which processes are neighbours: those of one task, as
            # only they share GPUs.
            "HOROVOD_HOSTNAME": "%s-%d" % (task.group, task.index),
            "HOROVOD_SIZE": str(ranks.size),
            "HOROVOD_LOCAL_SIZE": str(ranks.local_size),
        }

    def process_variables(
        self, task: TaskContext, members: Mapping[str, List[str]], local_rank: int
    ) -> Dict[str, str]:
        """Return the ranks: in the job, in the task, and among the tasks' processes like this."""
        if task.port is None:
            return {}
        ranks = ranks_of(task, members)
        like_this = [node for node, count in enumerate(ranks.processes) if count > local_rank]
        return {
            "HOROVOD_RANK": str(ranks.first + local_rank),
            "HOROVOD_LOCAL_RANK": str(local_rank),
            "HOROVOD_CROSS_RANK": str(like_this.index(ranks.node)),
            "HOROVOD_CROSS_SIZE": str(len(like_this)),
        }


PROFILE = HorovodProfile()
