"""Why a task ended, as its owner is told after YARN has ended it."""

from __future__ import annotations

import re

from tests.yarn.driver import HOLD, Yarn


def test_a_task_that_uses_too_much_memory_is_told_how_much_it_needs(yarn: Yarn, gate: str) -> None:
    hold = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); "
    command = gate + f'[ "$YTF_TASK" = worker:0 ] || {{ {hold} }}; ' + HOLD
    job = yarn.submit("worker:2", command)
    diagnostics = yarn.wait(job, "FAILED")["diagnostics"]
    told = re.fullmatch(
        r"worker:1 ended on \S+: it used (\S+) MB of the 128 MB of memory that it may use, and was "
        r"killed\.\nhint: ask for more memory: -m worker:(\d+)",
        diagnostics,
    )
    assert told is not None, diagnostics
    assert 128 < float(told[1]) < int(told[2])
    # What YARN says in its own words is for who looks closer.
    assert "beyond the 'PHYSICAL' memory limit" in yarn.run("ytf", "events", job).stdout
    yarn.nothing_is_left(job)
