"""What every command does first: see to jobs whose own processes are gone."""

from __future__ import annotations

import sys

from ytf.backends.local.jobs import LocalJobs


def sweep(*, verbose: bool = False) -> int:
    """Remove what dead local jobs left, and say which were found dead.

    ``verbose`` says so, too, when there were none.
    """
    buried = LocalJobs().sweep()
    for job in buried:
        print(f"ytf: job {job} was found dead and is recorded as FAILED", file=sys.stderr)
    if verbose and not buried:
        print("ytf: no dead jobs were found", file=sys.stderr)
    return 0
