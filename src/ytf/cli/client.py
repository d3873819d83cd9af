"""Programs of a job at this terminal: ``ytf-submit --client`` and ``ytf attach``."""

from __future__ import annotations

import signal
import sys

from ytf.backends.api import JobHandle
from ytf.cli.interrupts import Interrupted
from ytf.client import backends
from ytf.client.access import access
from ytf.client.follow import follow
from ytf.client.member import ClientTask
from ytf.client.plan import Plan
from ytf.client.surroundings import surroundings
from ytf.client.terminal import run_program
from ytf.errors import NotFoundError
from ytf.specs.cluster import ClusterSpec
from ytf.starter import situation


def run_client(prog: str, handle: JobHandle, plan: Plan) -> None:
    """Be ``client:0`` until the master wants no more of it.

    Raises :class:`Interrupted` if the user ended the program with Ctrl-C.
    """
    command = plan.spec.client_command or plan.spec.command
    assert command is not None  # the plan was checked
    way = access(handle.job)
    print(f"{prog}: the client starts when every task is known", file=sys.stderr)
    with surroundings(way, command, index=0) as around:
        around.ship(plan.uploads)
        try:
            ClientTask(way, around).run()
        except KeyboardInterrupt as exc:
            raise Interrupted(signal.SIGINT) from exc


def attach(job: str, command: str, *, index: int) -> int:
    """Run one more client of a running job; its exit code. Does not touch the job."""
    handle = backends.open_job(job)
    spec = _known_cluster(handle)
    with surroundings(access(handle.job), command, index=index) as around:
        members = {group: list(hosts) for group, hosts in spec.members.items()}
        told = situation.ClusterSpec(spec.generation, spec.revision, members)
        end = run_program(around.command(told, attempt=1))
    if end.reason:
        print(f"ytf: the command did not run: {end.reason}", file=sys.stderr)
    if end.signal is not None:
        return 128 + end.signal
    return end.exit_code or 0


def _known_cluster(handle: JobHandle) -> ClusterSpec:
    """The cluster spec of a running job, waited for."""
    for status in follow(handle):
        if status.state.is_final:
            break
        spec = handle.cluster_spec()
        if spec is not None:
            return spec
    raise NotFoundError(
        f"job {handle.job} has ended, there is nothing to attach to",
        hint=f"`ytf status {handle.job}` tells how it ended",
    )
