"""The life of a job: which tasks end it, which are stopped, and their grace period."""

from __future__ import annotations

import signal

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
    # The programs' own last lines, and not those that their end makes them write. The limit
    # leaves a busy machine the time to start them.
    program = (
        "trap 'echo stopped; exit 1' TERM; echo at step 7; echo waiting >&2; " + HERE + FOREVER
    )
    job = ytf.submit("worker:1,ps:1", program, "--timeout", "15s")
    status = job.end("FAILED")
    assert status.diagnostics == (
        "The job did not end within its time limit of 15 s. Still running: worker:0, ps:0.\n"
        "Last lines of worker:0's stdout:\n  | at step 7\n"
        "Last lines of worker:0's stderr:\n  | waiting\n"
        "Last lines of ps:0's stdout:\n  | at step 7\n"
        "Last lines of ps:0's stderr:\n  | waiting"
    )
    assert states(status) == {"worker:0": "KILLED", "ps:0": "KILLED"}


def test_a_failure_without_stderr_shows_stdout(ytf: Ytf) -> None:
    status = ytf.submit("worker:1", "echo no such file; exit 3").end("FAILED")
    assert status.diagnostics.endswith(
        "\nLast lines of its stdout (its stderr is empty):\n  | no such file"
    )


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
    _, errors = waiting.communicate(timeout=60)
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
    done = ytf.run(
        *("ytf-submit", "--framework", "none", "-r", "worker:200", "--wait", "true"), timeout_s=250
    )
    assert "succeeded" in done.stderr


SERVE = """
import os, time

def wait(condition):
    while not condition():
        time.sleep(0.02)

# Just more than half the limit, so that a cut drops nothing of it.
for burst in range(4):
    for number in range(5380 * burst, 5380 * burst + 5380):
        print(f"{number:06d} {'x' * 90}")
    print("", end="", flush=True)
    # Cut while it is being followed, and then read to the end.
    wait(lambda: os.fstat(1).st_size < 100_000)
    wait(lambda: os.path.exists(f"{os.environ['GATE']}/read.{burst}"))
wait(lambda: os.path.exists(f"{os.environ['GATE']}/go"))
"""


def test_a_server_is_followed_through_many_cuts_of_its_log(ytf: Ytf) -> None:
    """For days, that is: every line once and in order, in files that stay within their limit."""
    (ytf.work / "serve.py").write_text(SERVE)
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        script="serve.py",
        command="exec python3 $DTF_TASK_SCRIPT",
        log_limit_mb=1,
    )
    follower = ytf.start("ytf", "logs", "-f", job.id)
    assert follower.stdout is not None
    for number in range(4 * 5380):
        assert follower.stdout.readline().startswith(f"worker:0 | {number:06d} x")
        if number % 5380 == 5379:
            ytf.tell(f"read.{number // 5380}")
            files = [path for path in (job.history / "logs").rglob("stdout*") if path.is_file()]
            assert sum(path.stat().st_size for path in files) < 2 * (1 << 20)
    ytf.open_gate()
    job.end("SUCCEEDED")
    rest, _ = follower.communicate(timeout=60)
    assert rest == ""
