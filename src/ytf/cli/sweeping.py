"""What every command does first: see to jobs whose own processes are gone."""

from __future__ import annotations

from ytf.backends.local.jobs import LocalJobs
from ytf.cli.streams import say


def sweep(*, verbose: bool = False) -> int:
    """Remove what dead local jobs left, and say which were found dead.

    ``verbose`` says so, too, when there were none.
    """
    buried = LocalJobs().sweep()
    for job in buried:
        say(f"ytf: job {job} was found dead and is recorded as FAILED")
    if verbose and not buried:
        say("ytf: no dead jobs were found")
    return 0
