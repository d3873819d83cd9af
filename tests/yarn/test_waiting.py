"""Jobs that have to wait on a real YARN: why is told within seconds, and then they run."""

from __future__ import annotations

from tests.yarn.driver import HERE, HOLD, SMALL, Started, Yarn
from ytf.testing.waiting import eventually

SUBMIT = ("ytf-submit", "--backend", "yarn", *SMALL)
HUGE_MASTER = ("--master_memory", "30000", "-r", "worker:1", "true")
WIDE = ("-m", "worker:32000", "-r", "worker:1", "true")
FULL_OF_MASTERS = "Waiting for its master: the masters in the queue root.default may have 590"
NO_ROOM = "Waiting for 1 of 1 containers: 1 × worker (32000 MB, 1 vcores). The queue root.default"


def heard(command: Started, words: str) -> str:
    """The line with these words that a command that is waiting has said."""
    return next(line for line in command.output if words in line)


def test_jobs_wait_for_their_turn_and_say_for_what(yarn: Yarn, gate: str) -> None:
    # Two nodes of 32 GB: the first job's master fills one, its worker most of the other.
    first = yarn.submit(
        "worker:1", gate + HERE + HOLD, "--master_memory", "30000", "-m", "worker:20000"
    )
    yarn.wait_running(["worker:0"])
    # A small one has room beside it.
    yarn.run(*SUBMIT, "--wait", "-r", "worker:2", "true")
    assert yarn.status(first)["state"] == "RUNNING"

    done = yarn.run(*SUBMIT, *HUGE_MASTER)
    assert FULL_OF_MASTERS in done.stderr
    unwanted = done.stdout.strip()
    yarn.run("ytf", "kill", unwanted)
    with (
        yarn.started(*SUBMIT, "--wait", *HUGE_MASTER) as second,
        yarn.started(*SUBMIT, "--wait", *WIDE) as third,
    ):
        queued, wide = second.job(), third.job()
        assert "this one asks for 30016 MB" in heard(second, FULL_OF_MASTERS)
        assert "left for this job" in heard(third, NO_ROOM)
        assert yarn.status(queued)["state"] == "SUBMITTED"
        assert yarn.status(queued)["diagnostics"].startswith(FULL_OF_MASTERS)
        assert yarn.status(wide)["diagnostics"].startswith(NO_ROOM)
        yarn.open_gate()
        for command in (second, third):
            assert "SUCCEEDED" in command.end(0)
    assert yarn.wait(first, "SUCCEEDED")["diagnostics"] == "All tracked tasks succeeded."
    assert yarn.status(unwanted)["state"] == "KILLED"
    jobs = {first, unwanted, queued, wide}
    eventually(lambda: not jobs & set(yarn.staged()), 20, "nothing to be left of them")
    for job in jobs:
        yarn.nothing_is_left(job)
