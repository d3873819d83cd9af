"""``ytf shell`` and ``ytf attach`` on YARN: from other machines, by several at once, by others."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.testing.waiting import eventually

STAY = "exec sleep 600"


def test_shells_from_another_machine_and_under_a_second_master(
    yarn: Yarn, gate: str, tmp_path: Path
) -> None:
    job = yarn.submit("worker:2", gate + HERE + HOLD)
    programs = yarn.wait_running(["worker:0", "worker:1"])
    # Another machine of the owner: it has the cluster's configuration, and nothing of the job.
    laptop = replace(yarn, home=tmp_path / "another home")
    look = 'echo "$YTF_TASK $(readlink /proc/self/cwd)"; echo oops >&2; exit 7'
    done = laptop.run("ytf", "shell", job, "worker:1", look, code=7)
    cwd = Path(f"/proc/{programs['worker:1']}/cwd").readlink()
    assert (done.stdout, done.stderr) == (f"worker:1 {cwd}\n", "oops\n")

    bob = yarn.as_user("bob")
    refused = bob.run("ytf", "shell", job, "worker:0", "true", code=1).stderr
    assert f"whose job {job} is, can take part in it" in refused

    tell = 'echo $$; echo $$ > "$GATE/.s"; mv "$GATE/.s" "$GATE/shell"; '
    with laptop.started("ytf", "shell", job, "worker:0", gate + tell + STAY) as shell:
        inside = int(shell.output.readline())
        yarn.kill_master(job, tasks=2)
        eventually(lambda: "Master attempt 2" in yarn.run("ytf", "events", job).stdout, 60)
        # The open one does not notice, and another one is opened.
        assert Path(f"/proc/{inside}").exists()
        assert laptop.run("ytf", "shell", job, "worker:0", "echo new").stdout == "new\n"
        assert "asked for a shell in worker:1" in yarn.run("ytf", "events", job).stdout
        yarn.open_gate()
        said = shell.end(128 + signal.SIGKILL)
    assert "the container of worker:0 ends" in said
    assert yarn.wait(job, "SUCCEEDED")["final_status"] == "SUCCEEDED"
    assert not Path(f"/proc/{inside}").exists()
    assert "has ended" in laptop.run("ytf", "shell", job, "worker:0", code=1).stderr
    yarn.nothing_is_left(job)


def test_a_starter_killed_by_its_node_leaves_no_shell(yarn: Yarn, gate: str) -> None:
    """YARN kills the container's process group; a shell is in sessions of its own."""
    job = yarn.submit("worker:1", gate + HERE + STAY)
    yarn.wait_running(["worker:0"])
    leave = "setsid --fork env -i sh -c 'echo $$; exec sleep 600'; echo $$; "
    with yarn.started("ytf", "shell", job, "worker:0", leave + STAY) as shell:
        inside = [Path("/proc") / shell.output.readline().strip() for _ in range(2)]
        killed = f"/apps/{job}/state?user.name={yarn.name}"
        yarn.cluster.rm_rest(killed, "PUT", {"state": "KILLED"})
        shell.process.wait(60)
    eventually(lambda: not any(map(Path.exists, inside)), 60, "the end of the shell")
    yarn.wait(job, "KILLED")
    yarn.nothing_is_left(job)


def test_several_attached_clients_at_once_from_another_machine(
    yarn: Yarn, gate: str, tmp_path: Path
) -> None:
    """Each sees the whole cluster and its own index; none disturbs the others or the job."""
    job = yarn.submit("ps:1,worker:2", gate + HERE + HOLD)
    yarn.wait_running(["ps:0", "worker:0", "worker:1"])
    hosts = json.loads(yarn.run("ytf", "spec", job).stdout)["worker"]
    laptop = replace(yarn, home=tmp_path / "another home")
    meet = (
        'touch "$GATE/client.$DTF_TASK_INDEX"; '
        'until [ -e "$GATE/client.1" ] && [ -e "$GATE/client.2" ] && [ -e "$GATE/client.3" ]; '
        "do sleep 0.05; done; "
        'echo "$DTF_TASK_JOB_NAME:$DTF_TASK_INDEX $DTF_WORKER_HOSTS"; exit $DTF_TASK_INDEX'
    )
    with ExitStack() as stack:
        clients = {
            index: stack.enter_context(
                laptop.started("ytf", "attach", job, "--index", str(index), gate + meet)
            )
            for index in (1, 2, 3)
        }
        for index, client in clients.items():
            assert f"client:{index} {','.join(hosts)}\n" in client.end(index)
    status = yarn.status(job)
    assert status["state"] == "RUNNING"
    assert {(task["state"], task["attempt"]) for task in status["tasks"]} == {("RUNNING", 1)}
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    yarn.nothing_is_left(job)
