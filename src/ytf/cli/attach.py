"""Runs programs of a job at this terminal: ``ytf-submit --client`` and ``ytf attach``."""

from __future__ import annotations

import signal
import time

from ytf import backends
from ytf.backends.api import JobHandle, Plan, job_ended_error
from ytf.cli.interrupts import Interrupted, Interrupts
from ytf.cli.job_arguments import open_job
from ytf.cli.output import say
from ytf.client.client_env import client_env
from ytf.client.client_task import ClientTask
from ytf.client.follow import follow
from ytf.client.master_lookup import wait_for_master
from ytf.client.terminal_program import run_program
from ytf.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from ytf.specs.status import ClusterSpec
from ytf.starter.desired_state import ReceivedClusterSpec

_RETRY_S = 1.0
"""The pause before asking again if the master or the cluster does not answer."""


def run_client(prog: str, handle: JobHandle, plan: Plan) -> None:
    """Run ``client:0`` until the master needs it no more.

    Raises :class:`Interrupted` if the user ended the program with Ctrl-C.
    """
    command = plan.spec.client_command or plan.spec.command
    assert command is not None  # the plan was checked
    say(f"{prog}: the client starts when every task is known")
    try:
        way = handle.credentials()
        master = wait_for_master(handle, way, lambda text: say(f"{prog}: {text}"))
    except NotFoundError:
        return  # the job has ended already; the caller reports how
    with client_env(way, master.url, command, index=0, notify=say) as env:
        env.link_script(plan.uploads)
        try:
            ClientTask(way, master, env).run()
        except KeyboardInterrupt as exc:
            raise Interrupted(signal.SIGINT) from exc


def attach(job: str, command: str, *, backend: str | None = None, index: int) -> int:
    """Run one more client of a running job and return its exit code. The job is not changed.

    The command is ended when the job ends, and when this process is interrupted.
    """
    try:
        with Interrupts(hangup=True):
            return _attach(open_job(job, backend), command, index)
    except Interrupted as interrupt:
        return interrupt.exit_code


def _attach(handle: JobHandle, command: str, index: int) -> int:
    way = handle.credentials()
    spec = _known_cluster(handle)
    master = wait_for_master(handle, way, lambda text: say(f"ytf: {text}"))
    with client_env(way, master.url, command, index=index, notify=say) as env:
        members = {group: list(hosts) for group, hosts in spec.members.items()}
        received = ReceivedClusterSpec(spec.generation, spec.revision, members)
        end = run_program(
            env.command(received, attempt=1),
            until=lambda: _wait_for_end(handle.job),
            grace_s=way.spec.timeouts.stop_grace_s,
        )
    if end.reason:
        say(f"ytf: the command did not run: {end.reason}")
    if end.signal is not None:
        return 128 + end.signal
    return end.exit_code or 0


def _wait_for_end(job: str) -> None:
    """Return once a job is over, and say so. Runs in a thread, so it opens its own handle."""
    state = "and is gone"
    while True:
        try:
            for status in follow(backends.open_job(job)):
                state = status.state.value
        except (UnreachableError, OutcomeUnknownError):
            time.sleep(_RETRY_S)  # the master or the cluster may come back
            continue
        except NotFoundError:
            break  # the job is over, and its record is removed
        break
    say(f"ytf: job {job} has ended {state}: its clients are ended, too")


def _known_cluster(handle: JobHandle) -> ClusterSpec:
    """Wait for the cluster spec of a running job."""
    for status in follow(handle, notify=lambda text: say(f"ytf: {text}")):
        if status.state.is_final:
            break
        spec = handle.cluster_spec()
        if spec is not None:
            return spec
    raise job_ended_error(handle.job)
