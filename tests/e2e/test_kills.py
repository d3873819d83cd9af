"""SIGKILL of the processes of a job other than its master and its node."""

from __future__ import annotations

import pytest

from tests.e2e.harness import FOREVER, HERE, Ytf, kill, states, stop, task, wait_dead


@pytest.mark.parametrize("victim", ["worker:1", "ps:0", "chief:0"])
def test_a_killed_program_is_named(ytf: Ytf, victim: str) -> None:
    job = ytf.submit("ps:1,chief:1,worker:2", HERE + "echo 'last words' >&2; " + FOREVER)
    tasks = ("ps:0", "chief:0", "worker:0", "worker:1")
    job.wait_running(*tasks)
    programs = [job.program(each) for each in tasks]
    kill(job.program(victim))
    status = job.end("FAILED")
    assert status.diagnostics.startswith(f"{victim} was ended by SIGKILL")
    assert "last words" in status.diagnostics
    assert task(status, victim).signal == 9
    assert states(status) == dict.fromkeys(tasks, "KILLED") | {victim: "FAILED"}
    wait_dead(*programs)


def test_a_killed_starter_takes_its_program_with_it(ytf: Ytf) -> None:
    job = ytf.submit("worker:2", "echo last words >&2; " + HERE + "sleep 1000 & " + FOREVER)
    job.wait_running("worker:0", "worker:1")
    container = job.container("worker:1")
    assert len(container) >= 4, "starter, reaper, shell, sleep"
    kill(container[0])
    status = job.end("FAILED")
    wait_dead(*container)
    assert status.diagnostics.startswith("worker:1 was ended by SIGKILL")
    assert "container ended before the end of its program was reported" in status.diagnostics
    assert "  | last words" in status.diagnostics
    assert states(status) == {"worker:0": "KILLED", "worker:1": "FAILED"}


def test_a_killed_reaper_takes_its_program_with_it(ytf: Ytf) -> None:
    job = ytf.submit("worker:2", HERE + "sleep 1000 & " + FOREVER)
    job.wait_running("worker:0", "worker:1")
    container = job.container("worker:1")
    kill(container[1])
    status = job.end("FAILED")
    wait_dead(*container)
    assert status.diagnostics.startswith("worker:1 was ended by SIGKILL")


def test_a_whole_container_killed_at_once_is_named(ytf: Ytf) -> None:
    job = ytf.submit("ps:1,worker:2", HERE + FOREVER)
    job.wait_running("ps:0", "worker:0", "worker:1")
    container = job.container("worker:0")
    kill(*container[:3])
    status = job.end("FAILED")
    wait_dead(*container)
    assert status.diagnostics.startswith("worker:0 was ended by SIGKILL")
    assert states(status) == {"ps:0": "KILLED", "worker:0": "FAILED", "worker:1": "KILLED"}


DAEMON = "setsid --fork sh -c 'echo $$ >$GATE/d; mv $GATE/d $GATE/daemon; sleep 1000'; "


@pytest.mark.parametrize("with_node", [False, True], ids=["starter", "starter and node"])
def test_a_daemon_dies_with_starter_and_reaper(ytf: Ytf, with_node: bool) -> None:
    job = ytf.submit("worker:1", DAEMON + HERE + FOREVER)
    job.wait_running("worker:0")
    daemon = int(ytf.told("daemon"))
    victims = job.container("worker:0")[:2] + [job.node()] * with_node
    # None of them may do anything about the death of another.
    stop(*victims)
    kill(*victims)
    wait_dead(daemon, timeout_s=60)
    job.end("FAILED", timeout_s=60)


def test_the_next_command_kills_a_daemon_that_nobody_is_left_to_kill(ytf: Ytf) -> None:
    job = ytf.submit("worker:1", DAEMON + HERE + FOREVER)
    job.wait_running("worker:0")
    daemon = int(ytf.told("daemon"))
    victims = [*job.container("worker:0")[:2], job.node(), job.master()]
    stop(*victims)
    kill(*victims)
    ytf.run("ytf", "list")
    wait_dead(daemon, timeout_s=60)
    job.end("FAILED", timeout_s=60)
