"""The commands of torchx run, show and cancel jobs of ytf."""

from __future__ import annotations

import re

from tests.e2e.harness import HERE, HOLD, Job, Ytf, without_colours

RUN = ("torchx", "run", "-s", "yarn", "-cfg", "backend=local,env=node")


def started(ytf: Ytf, *component: str) -> tuple[str, Job]:
    """Run a component; its handle, and its job."""
    done = ytf.run(*RUN, *component)
    handle = done.stdout.strip()
    match = re.fullmatch(r"yarn://torchx/(local_\S+)", handle)
    assert match, done.stdout
    return handle, Job(ytf, match[1])


def test_an_app_runs_to_its_end(ytf: Ytf) -> None:
    (ytf.work / "words.txt").write_text("shipped\n")
    done = ytf.run(
        *(*RUN, "--wait", "--log", "utils.sh", "--num_replicas", "2"),
        *("bash", "-c", "cat words.txt; echo ${app_id} ${replica_id} >&2"),
    )
    handle = done.stdout.strip()
    app = handle.rpartition("/")[2]
    status = ytf.run("torchx", "status", handle).stdout
    assert re.search(r"State: SUCCEEDED\s+Num Restarts: 0", status)
    assert "*sh[0]:SUCCEEDED" in status
    assert "sh[1]:SUCCEEDED" in status
    assert "sh/1 shipped" in without_colours(done.stderr)

    def lines(*words: str) -> list[str]:
        printed = without_colours(ytf.run("torchx", "log", *words).stdout).splitlines()
        return sorted(printed)

    assert lines(f"{handle}/sh/1") == [f"sh/1 {app} 1", "sh/1 shipped"]
    assert lines("--streams", "stdout", handle) == ["sh/0 shipped", "sh/1 shipped"]
    assert lines("--streams", "stderr", "--tail", f"{handle}/sh") == [
        f"sh/0 {app} 0",
        f"sh/1 {app} 1",
    ]
    assert lines("--regex", f"{app} 0|nothing", handle) == [f"sh/0 {app} 0"]
    assert re.search(
        rf"yarn://torchx/{app} +SUCCEEDED", ytf.run("torchx", "list", "-s", "yarn").stdout
    )


def test_a_failure_is_told_with_its_task(ytf: Ytf) -> None:
    handle, job = started(ytf, "utils.sh", "--max_retries", "1", "bash", "-c", "exit 7")
    job.end("FAILED")
    status = ytf.run("torchx", "status", handle).stdout
    assert "State: FAILED" in status
    assert "Num Restarts: 1" in status
    assert "*sh[0]:FAILED (exitcode: 7)" in status
    assert "error_msg: sh:0 exited with code 7" in status
    assert "The job had been restarted once, as allowed." in status


def test_an_app_is_cancelled(ytf: Ytf) -> None:
    handle, job = started(ytf, "utils.sh", "bash", "-c", HERE + HOLD)
    job.wait_running("sh:0")
    assert "State: RUNNING" in ytf.run("torchx", "status", handle).stdout
    following = ytf.start("torchx", "log", "--tail", f"{handle}/sh/0")
    ytf.run("torchx", "cancel", handle)
    assert "cancelled with torchx" in job.end("KILLED").diagnostics
    assert following.wait(60) == 0
    assert "State: CANCELLED" in ytf.run("torchx", "status", handle).stdout
    ytf.run("torchx", "cancel", handle)


def test_what_is_wrong_is_told_before_anything_runs(ytf: Ytf) -> None:
    done = ytf.run(*RUN[:-1], "backend=lokal", "utils.echo", code=1)
    assert "there is no backend 'lokal'" in done.stderr
    assert "use one of: local, yarn" in done.stderr
    assert not (ytf.home / "jobs").exists()
    done = ytf.run("torchx", "status", "yarn://torchx/local_20200101000000_0000", code=1)
    assert "does not exist" in done.stderr
