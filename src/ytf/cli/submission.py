"""What ``ytf-submit`` and ``ytf submit`` do once they have a spec.

What is not needed before the id is printed is loaded after that, if at all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ytf.backends.api import JobBackend
from ytf.cli import failures
from ytf.cli.interrupts import Interrupted, Interrupts
from ytf.cli.streams import OutputError, say
from ytf.cli.sweeping import sweep
from ytf.client import backends
from ytf.client.plan import Plan, make_plan
from ytf.client.settings import Settings, choose_backend
from ytf.specs.job import JobSpec
from ytf.specs.names import JobId

if TYPE_CHECKING:
    from ytf.packaging.environments import Tool

_HELD = "interrupted while the job is accepted: it is killed then (once more to leave now)"


def submit(
    prog: str,
    spec: JobSpec,
    settings: Settings,
    *,
    wait: bool,
    dryrun: bool,
    json: bool,
    base: Path | None = None,
) -> int:
    """Plan and submit; print the job's id alone on stdout, all else on stderr."""
    sweep()
    choice = choose_backend(settings)
    if not json:
        say(f"{prog}: backend {choice.name} ({choice.reason})")
    backend = backends.backend(choice.name)
    plan = make_plan(
        spec,
        backend=choice.name,
        user=backend.user(),
        base=base,
        tensorboard=_any_tensorboard if dryrun else _own_tensorboard,
    )
    if dryrun:
        _show(plan, json=json)
        return 0
    for note in plan.notes:
        say(f"{prog}: note: {note}")
    return _send(prog, backend, plan, wait=wait)


def _show(plan: Plan, *, json: bool) -> None:
    from ytf.cli.tables import print_json
    from ytf.client.describe import describe

    if json:
        print_json(_as_json(plan))
    else:
        sys.stdout.write(describe(plan))


def _send(prog: str, backend: JobBackend, plan: Plan, *, wait: bool) -> int:
    def tell(text: str) -> None:
        say(f"{prog}: {text}")

    if not wait and not plan.spec.client:
        submitted = backend.submit(plan, tell)
        code = _announce(prog, submitted.job)
        from ytf.cli import waiting

        waiting.say_why(prog, submitted)
        return code
    # Without its terminal a client cannot go on; a job that is only waited for can.
    interrupts = Interrupts(hangup=plan.spec.client)
    with interrupts:
        handle = None
        try:
            with interrupts.holding(f"{prog}: {_HELD}") as hold:
                handle = backend.submit(plan, tell, hold)
            _announce(prog, handle.job)
            from ytf.cli import waiting

            if plan.spec.client:
                from ytf.cli.client import run_client

                run_client(prog, handle, plan)
        except Interrupted as interrupt:
            if handle is not None:
                from ytf.cli import waiting

                waiting.kill_on_interrupt(prog, handle, interrupt)
            else:
                say(f"{prog}: {interrupt}: the submission was given up")
            return interrupt.exit_code
        return waiting.wait_for_end(prog, handle)


def _announce(prog: str, job: JobId) -> int:
    """Print the id alone on stdout, or say it on stderr if that cannot be; the exit code."""
    try:
        print(job, flush=True)
    except OutputError as error:
        say(f"{prog}: job {job} was accepted, and goes on")
        return failures.not_written(prog, error, "its id")
    return 0


def _own_tensorboard() -> Tool:
    from ytf.packaging import environments

    return environments.tensorboard(say)


def _any_tensorboard() -> Tool:
    # A dry run makes no environment; where it will lie is not known before.
    from ytf.packaging.environments import Tool

    return Tool(argv=("tensorboard",))


def _as_json(plan: Plan) -> bytes:
    return msgspec.json.encode(
        {
            "backend": plan.backend,
            "user": plan.user,
            # Everything, not what differs from the defaults: a program need not know those.
            "spec": plan.spec,
            "uploads": plan.uploads,
            "notes": plan.notes,
        }
    )
