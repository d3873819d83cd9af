"""Programs of a job at this terminal: ``ytf-submit --client`` and ``ytf attach``."""

from __future__ import annotations

import signal
import time

from ytf.backends.api import JobHandle, over
from ytf.cli.interrupts import Interrupted, Interrupts
from ytf.cli.streams import say
from ytf.client import backends
from ytf.client.access import wait_for_master
from ytf.client.follow import follow
from ytf.client.member import ClientTask
from ytf.client.plan import Plan
from ytf.client.surroundings import surroundings
from ytf.client.terminal import run_program
from ytf.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from ytf.specs.cluster import ClusterSpec
from ytf.starter import situation

_PAUSE_S = 1.0
"""Between two looks for a cluster that does not answer."""


def run_client(prog: str, handle: JobHandle, plan: Plan) -> None:
    """Be ``client:0`` until the master wants no more of it.

    Raises :class:`Interrupted` if the user ended the program with Ctrl-C.
    """
    command = plan.spec.client_command or plan.spec.command
    assert command is not None  # the plan was checked
    say(f"{prog}: the client starts when every task is known")
    try:
        way = handle.access()
        master = wait_for_master(handle, way, lambda text: say(f"{prog}: {text}"))
    except NotFoundError:
        return  # over before it began: whoever waits for its end tells how
    with surroundings(way, master.url, command, index=0) as around:
        around.ship(plan.uploads)
        try:
            ClientTask(way, master, around).run()
        except KeyboardInterrupt as exc:
            raise Interrupted(signal.SIGINT) from exc


def attach(job: str, command: str, *, index: int) -> int:
    """Run one more client of a running job; its exit code. Does not touch the job.

    The command is ended with the job, and with us.
    """
    try:
        with Interrupts(hangup=True):
            return _attach(backends.open_job(job), command, index)
    except Interrupted as interrupt:
        return interrupt.exit_code


def _attach(handle: JobHandle, command: str, index: int) -> int:
    way = handle.access()
    spec = _known_cluster(handle)
    master = wait_for_master(handle, way, lambda text: say(f"ytf: {text}"))
    with surroundings(way, master.url, command, index=index) as around:
        members = {group: list(hosts) for group, hosts in spec.members.items()}
        told = situation.ClusterSpec(spec.generation, spec.revision, members)
        end = run_program(
            around.command(told, attempt=1),
            until=lambda: _wait_for_end(handle.job),
            grace_s=way.spec.timeouts.stop_grace_s,
        )
    if end.reason:
        say(f"ytf: the command did not run: {end.reason}")
    if end.signal is not None:
        return 128 + end.signal
    return end.exit_code or 0


def _wait_for_end(job: str) -> None:
    """Return once a job is over, and say so. In a thread, so with a handle of its own."""
    state = "and is gone"
    while True:
        try:
            for status in follow(backends.open_job(job)):
                state = status.state.value
        except (UnreachableError, OutcomeUnknownError):
            time.sleep(_PAUSE_S)  # its master, or the cluster, may come back
            continue
        except NotFoundError:
            break  # over, and not even a record is left
        break
    say(f"ytf: job {job} has ended {state}: its clients are ended, too")


def _known_cluster(handle: JobHandle) -> ClusterSpec:
    """The cluster spec of a running job, waited for."""
    for status in follow(handle, tell=lambda text: say(f"ytf: {text}")):
        if status.state.is_final:
            break
        spec = handle.cluster_spec()
        if spec is not None:
            return spec
    raise over(handle.job)
