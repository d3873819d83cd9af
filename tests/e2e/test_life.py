"""How a job lives and ends: who ends it, who is stopped, who gets time."""

from __future__ import annotations

import signal
import time

from tests.e2e.harness import FOREVER, HERE, HOLD, Ytf, is_alive, states, task, wait_dead
from ytf.testing.waiting import eventually


def by_group(**programs: str) -> str:
    """One command for every task, which does another thing in each group."""
    cases = "\n".join(f"{group}) {program} ;;" for group, program in programs.items())
    return f"{HERE}\ncase $DTF_TASK_JOB_NAME in\n{cases}\nesac"


def test_the_ps_is_stopped_when_the_workers_have_succeeded(ytf: Ytf) -> None:
    ps = f"""trap 'touch "$GATE/stopped"; exit 0' TERM; {FOREVER}"""
    job = ytf.submit("ps:1,worker:2", by_group(ps=ps, worker=HOLD))
    job.wait_running("ps:0", "worker:0", "worker:1")
    server = job.program("ps:0")
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert status.diagnostics == "All tracked tasks succeeded."
    assert (ytf.gate / "stopped").exists()
    wait_dead(server)
    assert states(status)["worker:1"] == "SUCCEEDED"


def test_a_worker_that_fails_ends_the_job_and_is_quoted(ytf: Ytf) -> None:
    worker = (
        "if [ $DTF_TASK_INDEX = 1 ]; then echo noise; echo 'first words' >&2; "
        f"echo 'lóss is NaN' >&2; exit 3; fi; {FOREVER}"
    )
    job = ytf.submit("ps:1,worker:2", by_group(ps=FOREVER, worker=worker))
    status = job.end("FAILED")
    first, *rest = status.diagnostics.splitlines()
    assert first.startswith("worker:1 exited with code 3")
    assert "  | first words" in rest
    assert "  | lóss is NaN" in rest
    assert "noise" not in status.diagnostics
    assert states(status) == {"ps:0": "KILLED", "worker:0": "KILLED", "worker:1": "FAILED"}
    assert task(status, "worker:1").exit_code == 3


def test_a_ps_that_fails_ends_the_job_at_once(ytf: Ytf) -> None:
    ps = f"[ $DTF_TASK_INDEX = 0 ] || {{ {HOLD} exit 1; }}"
    job = ytf.submit("ps:2,worker:1", by_group(ps=ps, worker=FOREVER))
    job.wait_running("worker:0", "ps:0", "ps:1")
    eventually(lambda: states(job.status())["ps:0"] == "SUCCEEDED")
    ytf.open_gate()
    status = job.end("FAILED")
    assert status.diagnostics.startswith("ps:1 exited with code 1")
    assert states(status) == {"ps:0": "SUCCEEDED", "ps:1": "FAILED", "worker:0": "KILLED"}


def test_who_exits_0_early_is_done(ytf: Ytf) -> None:
    worker = f"[ $DTF_TASK_INDEX = 0 ] || {{ {HOLD} }}"
    job = ytf.submit("ps:1,worker:2", by_group(ps="exit 0", worker=worker))
    job.wait_running("ps:0", "worker:0", "worker:1")
    early = {"ps:0": "SUCCEEDED", "worker:0": "SUCCEEDED", "worker:1": "RUNNING"}
    eventually(lambda: states(job.status()) == early)
    ytf.open_gate()
    job.end("SUCCEEDED")


def test_an_evaluator_gets_time_for_its_last_evaluation(ytf: Ytf) -> None:
    job = ytf.submit("worker:1,evaluator:1", by_group(worker="exit 0", evaluator=HOLD))
    job.wait_running("evaluator:0")
    waiting = {"worker:0": "SUCCEEDED", "evaluator:0": "RUNNING"}
    eventually(lambda: states(job.status()) == waiting)
    assert job.status().state.value == "RUNNING"
    ytf.open_gate()
    assert states(job.end("SUCCEEDED"))["evaluator:0"] == "SUCCEEDED"


def test_an_evaluator_does_not_get_for_ever(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}, "evaluator": {"count": 1}},
        command=by_group(worker="exit 0", evaluator=FOREVER),
        timeouts={"evaluator_s": 0.3},
    )
    assert states(job.end("SUCCEEDED"))["evaluator:0"] == "KILLED"


def test_a_job_that_takes_too_long_fails(ytf: Ytf) -> None:
    job = ytf.submit("worker:1", HERE + FOREVER, "--timeout", "1.5")
    status = job.end("FAILED")
    assert "did not end within its time of 1.5 s" in status.diagnostics
    assert states(status) == {"worker:0": "KILLED"}


def test_kill_ends_a_job(ytf: Ytf) -> None:
    job = ytf.submit("ps:1,worker:2", HERE + FOREVER)
    job.wait_running("ps:0", "worker:0", "worker:1")
    programs = [job.program(each) for each in ("ps:0", "worker:0", "worker:1")]
    assert job.id in ytf.run("ytf", "kill", job.id).stderr
    status = job.end("KILLED")
    assert "ytf kill" in status.diagnostics
    assert set(states(status).values()) == {"KILLED"}
    assert not any(map(is_alive, programs))


def test_ctrl_c_while_waiting_kills_the_job_and_says_so(ytf: Ytf) -> None:
    words = ("--framework", "none", "-r", "worker:1", "--wait", HERE + FOREVER)
    waiting = ytf.start("ytf-submit", *words)
    assert waiting.stdout is not None
    job_id = waiting.stdout.readline().strip()
    ytf.told("worker:0.1")
    waiting.send_signal(signal.SIGINT)
    _, errors = waiting.communicate(timeout=20)
    assert waiting.returncode == 130
    assert f"killing job {job_id}" in errors
    assert f"job {job_id} is KILLED" in errors
    assert "Traceback" not in errors
    assert '"state": "KILLED"' in ytf.run("ytf", "status", job_id, "--json").stdout


def test_the_waiting_client_may_die_and_the_job_goes_on(ytf: Ytf) -> None:
    words = ("--framework", "none", "-r", "worker:1", "--wait", HERE + HOLD)
    waiting = ytf.start("ytf-submit", *words)
    assert waiting.stdout is not None
    job_id = waiting.stdout.readline().strip()
    ytf.told("worker:0.1")
    waiting.kill()
    waiting.communicate()
    ytf.open_gate()
    record = ytf.home / "history" / job_id / "record.json"
    eventually(record.exists)
    assert '"state": "SUCCEEDED"' in ytf.run("ytf", "status", job_id, "--json").stdout


def test_two_hundred_tasks(ytf: Ytf) -> None:
    began = time.monotonic()
    done = ytf.run(
        *("ytf-submit", "--framework", "none", "-r", "worker:200", "--wait", "true"), timeout_s=90
    )
    took_s = time.monotonic() - began
    print(f"200 tasks of true: {took_s:.1f} s")
    assert "succeeded" in done.stderr
    assert took_s < 60
