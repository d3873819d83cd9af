"""Programs of a job at the submitter's terminal: ``--client`` and ``ytf attach``."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.harness import FOREVER, HERE, HOLD, Job, Ytf, kill, states, wait_dead

NONE = ("--framework", "none")


def test_the_client_has_the_terminal_and_decides(ytf: Ytf) -> None:
    client = (
        'read -r line; echo "client:$DTF_TASK_INDEX read $line; workers $DTF_WORKER_HOSTS"; '
        'echo oops >&2; touch "$GATE/go"'
    )
    done = ytf.run(
        *("ytf-submit", *NONE, "-r", "ps:1,worker:1", "--client", "--client_command", client),
        f"[ $DTF_TASK_JOB_NAME = ps ] && {FOREVER}; {HOLD}",
        stdin="grüße there\n",
    )
    job_id, said = done.stdout.splitlines()
    job = Job(ytf, job_id)
    spec = json.loads(ytf.run("ytf", "spec", job_id).stdout)
    assert said == f"client:0 read grüße there; workers {spec['worker'][0]}"
    assert "client" not in spec
    assert "oops" in done.stderr
    status = job.end("SUCCEEDED")
    assert states(status)["client:0"] == "SUCCEEDED"


def test_a_client_that_fails_fails_the_job(ytf: Ytf) -> None:
    words = ("ytf-submit", *NONE, "-r", "worker:1", "--client", "--client_command", "exit 4")
    done = ytf.run(*words, HERE + FOREVER, code=1)
    status = Job(ytf, done.stdout.strip()).end("FAILED")
    assert status.diagnostics.startswith("client:0 exited with code 4")
    assert states(status) == {"worker:0": "KILLED", "client:0": "FAILED"}


def test_attach_runs_one_more_client_and_does_not_touch_the_job(ytf: Ytf) -> None:
    job = ytf.submit("worker:2", HERE + HOLD)
    job.wait_running("worker:0", "worker:1")
    spec = json.loads(ytf.run("ytf", "spec", job.id).stdout)
    program = 'read -r line; echo "$line $DTF_TASK_JOB_NAME:$DTF_TASK_INDEX $DTF_WORKER_HOSTS"'
    done = ytf.run("ytf", "attach", job.id, program, stdin="hello\n")
    assert done.stdout == f"hello client:1 {','.join(spec['worker'])}\n"
    ytf.run("ytf", "attach", job.id, "exit 9", code=9)
    assert job.status().state.value == "RUNNING"
    ytf.open_gate()
    job.end("SUCCEEDED")
    late = ytf.run("ytf", "attach", job.id, "true", code=1)
    assert "has ended" in late.stderr


def test_a_client_whose_job_is_killed_goes_too(ytf: Ytf) -> None:
    words = ("-r", "worker:1", "--client", "--client_command", f'touch "$GATE/client"; {FOREVER}')
    running = ytf.start("ytf-submit", *NONE, *words, HERE + FOREVER)
    assert running.stdout is not None
    job = Job(ytf, running.stdout.readline().strip())
    ytf.told("client")
    ytf.run("ytf", "kill", job.id)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "KILLED" in errors
    job.end("KILLED")


@pytest.mark.parametrize(
    ("how", "signum"),
    [
        ("--client", signal.SIGKILL),
        ("--client", signal.SIGHUP),
        ("attach", signal.SIGKILL),
        ("attach", signal.SIGTERM),
    ],
)
def test_a_client_that_is_ended_leaves_nothing(
    ytf: Ytf, tmp_path: Path, how: str, signum: signal.Signals
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ytf.env["TMPDIR"] = str(temporary)
    program = f'echo $$ > "$GATE/client.new"; mv "$GATE/client.new" "$GATE/client"; {FOREVER}'
    if how == "attach":
        job = ytf.submit("worker:1", HERE + FOREVER)
        job.wait_running("worker:0")
        running = ytf.start("ytf", "attach", job.id, program)
    else:
        words = ("-r", "worker:1", "--client", "--client_command", program)
        running = ytf.start("ytf-submit", *NONE, *words, HERE + FOREVER)
        assert running.stdout is not None
        job = Job(ytf, running.stdout.readline().strip())
    client = int(ytf.told("client"))
    assert len(list(temporary.iterdir())) == 1, "the home's path is not one word for a shell"
    kill(running.pid, signum=signum)
    running.communicate(timeout=60)
    wait_dead(client)
    ytf.run("ytf", "kill", job.id)
    assert list(temporary.iterdir()) == []
