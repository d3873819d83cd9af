"""Plans and submits a job spec, for ``ytf-submit`` and ``ytf submit``.

To print the id soon, the modules of ``--wait`` and of clients are imported only afterwards.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ytf import backends
from ytf.backends.api import JobBackend, JobHandle, Notify, PassingNotice, Plan
from ytf.cli import output
from ytf.cli.gc import automatic_gc
from ytf.cli.interrupts import Interrupted, Interrupts
from ytf.cli.job_arguments import chosen_backend
from ytf.cli.output import OutputError, say
from ytf.cli.parser import UsageError
from ytf.client.environments import planned_environment
from ytf.client.last_job import remember_last_job
from ytf.client.plan import make_plan
from ytf.client.settings import Settings, choose_backend
from ytf.errors import YtfError
from ytf.specs.ids import JobId
from ytf.specs.job import JobSpec

if TYPE_CHECKING:
    from ytf.client.progress.terminal import TerminalDisplay
    from ytf.packaging.made_environments import EnvironmentRecipe
    from ytf.packaging.tensorboard import TensorBoardCommand

_INTERRUPTED = (
    "interrupted while the job is being accepted: it is killed afterwards "
    "(interrupt once more to leave now)"
)


def submit_spec(
    prog: str,
    spec: JobSpec,
    settings: Settings,
    *,
    wait: bool,
    dryrun: bool,
    json: bool,
    logs: bool = False,
    base: Path | None = None,
) -> int:
    """Plan and submit; print the job's id alone on stdout and everything else on stderr."""
    automatic_gc()
    if logs and spec.client:
        raise UsageError(
            "--logs and a client exclude each other: both would write to this terminal",
            hint="run `ytf logs -f @last` in another one",
        )
    choice = choose_backend(settings) if json else chosen_backend(prog, settings, submits=True)
    backend = backends.get_backend(choice.name)
    plan = make_plan(
        spec,
        backend=choice.name,
        user=backend.user(),
        base=base,
        tensorboard=_any_tensorboard if dryrun else lambda: _own_tensorboard(prog),
        make_environment=(
            planned_environment if dryrun else lambda recipe: _make_environment(prog, recipe)
        ),
    )
    if dryrun:
        _show(plan, json=json)
        return 0
    for note in plan.notes:
        say(f"{prog}: note: {note}")
    return _send(prog, backend, plan, wait=wait, logs=logs)


def _show(plan: Plan, *, json: bool) -> None:
    from ytf.cli.tables import print_json
    from ytf.client.plan_text import describe
    from ytf.terminal_text import printable

    if json:
        print_json(_as_json(plan))
    else:
        sys.stdout.write(printable(describe(plan)))


def _send(prog: str, backend: JobBackend, plan: Plan, *, wait: bool, logs: bool) -> int:
    if not wait and not plan.spec.client:
        with _notices(prog) as notify:
            submitted = backend.submit(plan, notify)
        remember_last_job(backend.name, submitted.job)
        code = _announce(prog, submitted.job)
        _say_why_waiting(prog, submitted)
        return code
    # A client needs its terminal. A job that is only waited for goes on without one.
    interrupts = Interrupts(hangup=plan.spec.client)
    with interrupts:
        handle = None
        try:
            with interrupts.holding(f"{prog}: {_INTERRUPTED}") as on_commit:
                with _notices(prog) as notify:
                    handle = backend.submit(plan, notify, on_commit)
                remember_last_job(backend.name, handle.job)
            _announce(prog, handle.job)
            from ytf.cli.submit import wait_for_job

            if plan.spec.client:
                from ytf.cli.attach import run_client

                run_client(prog, handle, plan)
        except Interrupted as interrupt:
            if handle is not None:
                from ytf.cli.submit import wait_for_job

                wait_for_job.kill_on_interrupt(prog, handle, interrupt)
            else:
                say(f"{prog}: {interrupt}: the submission was given up")
            return interrupt.exit_code
        return wait_for_job.wait_for_end(prog, handle, logs=plan.spec.tasks() if logs else None)


@contextmanager
def _notices(prog: str) -> Iterator[Notify]:
    """Prints what a submission tells; how far an upload is only on a terminal, in its place."""
    display: TerminalDisplay | None = None
    lock = threading.Lock()

    def notify(text: str) -> None:
        nonlocal display
        if not isinstance(text, PassingNotice):
            say(f"{prog}: {text}")
        elif sys.stderr.isatty():
            with lock:
                if display is None:
                    from ytf.client.progress.terminal import TerminalDisplay

                    display = TerminalDisplay()
            display.notice(text)

    try:
        yield notify
    finally:
        if display is not None:
            display.close()


def _announce(prog: str, job: JobId) -> int:
    """Print the id alone on stdout, or on stderr if that fails; returns the exit code."""
    try:
        print(job, flush=True)
    except OutputError as error:
        say(f"{prog}: job {job} was accepted and goes on")
        return output.report_not_written(prog, error, "its id")
    return 0


def _say_why_waiting(prog: str, handle: JobHandle) -> None:
    """Say why a job that was just submitted does not start yet, if that is known."""
    try:
        why = handle.why_waiting()
    except YtfError as error:
        # The job is submitted all the same.
        say(f"{prog}: the state of the job is not known: {error}")
        return
    if why:
        say(f"{prog}: {why}")


def _own_tensorboard(prog: str) -> TensorBoardCommand:
    from ytf.packaging.tensorboard import find_tensorboard

    return find_tensorboard(lambda text: say(f"{prog}: {text}"))


def _make_environment(prog: str, recipe: EnvironmentRecipe) -> Path:
    from ytf.packaging.made_environments import ensure_environment

    return ensure_environment(recipe, lambda text: say(f"{prog}: {text}"))


def _any_tensorboard() -> TensorBoardCommand:
    # A dry run builds no environment, so the path of its tensorboard is not known.
    from ytf.packaging.tensorboard import TensorBoardCommand

    return TensorBoardCommand(argv=("tensorboard",))


def _as_json(plan: Plan) -> bytes:
    return msgspec.json.encode(
        {
            "backend": plan.backend,
            "user": plan.user,
            # With all fields: a program that reads it need not know the defaults.
            "spec": plan.spec,
            "uploads": plan.uploads,
            "hdfs_plugin": plan.hdfs_plugin,
            "notes": plan.notes,
        }
    )
