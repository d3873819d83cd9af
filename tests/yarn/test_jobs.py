"""Whole jobs on a real YARN, through the real commands."""

from __future__ import annotations

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.testing.waiting import eventually

TALK = 'echo "hello from $YTF_TASK"; echo "worker 1 is at ${DTF_WORKER_HOSTS#*,}" >&2; '
PS_STAYS = '[ "$DTF_TASK_JOB_NAME" = worker ] || exec sleep 600'


def test_a_job_from_submission_to_its_logs(yarn: Yarn) -> None:
    (yarn.work / "data").mkdir()
    (yarn.work / "data" / "a file").write_text("in a directory\n")
    (yarn.work / "train.sh").write_text("echo script; cat 'data/a file'; echo home=$HOME\n")
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", "--wait", "--framework", "none",
        "-m", "ps:128", "-m", "worker:128", "-s", "train.sh", "--files", "data",
        "-r", "ps:1,worker:2", TALK + 'sh "$DTF_TASK_SCRIPT"; ' + PS_STAYS,
    )  # fmt: skip
    job = done.stdout.strip()
    assert "SUCCEEDED" in done.stderr
    assert job not in yarn.staged(), "--wait returned too early"
    yarn.nothing_is_left(job)

    status = yarn.status(job)
    assert (status["id"], status["backend"], status["state"]) == (job, "yarn", "SUCCEEDED")
    tasks = {f"{task['group']}:{task['index']}": task for task in status["tasks"]}
    assert {name: task["state"] for name, task in tasks.items()} == {
        "ps:0": "KILLED", "worker:0": "SUCCEEDED", "worker:1": "SUCCEEDED",
    }  # fmt: skip
    assert all(task["container"] in task["log_url"] for task in tasks.values())
    assert tasks["worker:0"]["exit_code"] == 0
    assert f"/{job}" in status["tracking_url"]

    lines = yarn.run("ytf", "logs", job).stdout.splitlines()
    worker = tasks["worker:1"]
    for task in tasks:
        assert f"{task} | hello from {task}" in lines
        assert f"{task} ! worker 1 is at {worker['host']}:{worker['port']}" in lines
        assert f"{task} | script" in lines
        assert f"{task} | in a directory" in lines
    assert not [line for line in lines if line.endswith("home=/home/")]
    only = yarn.run("ytf", "logs", job, "worker:1").stdout.splitlines()
    assert only == [line for line in lines if line.startswith("worker:1 ")]

    spec = yarn.run("ytf", "spec", job).stdout
    assert f"{worker['host']}:{worker['port']}" in spec
    assert "job-finished" in yarn.run("ytf", "events", job).stdout
    assert job in yarn.run("ytf", "list", "--backend", "yarn").stdout
    application = yarn.cluster.rm_rest(f"/apps/{job}")["app"]
    assert (application["applicationType"], application["finalStatus"]) == ("YTF", "SUCCEEDED")


def test_a_job_is_named_by_a_part_of_its_id_its_name_or_as_the_last(yarn: Yarn, gate: str) -> None:
    program = 'echo "attempt $YTF_ATTEMPT"; [ "$YTF_ATTEMPT" = 1 ] && exit 1; ' + HERE + HOLD
    job = yarn.submit("worker:1", gate + program, "-n", "twice", "--on_failure", "restart-task")
    yarn.wait_running(["worker:0"], attempt=2)
    with_backend = ("--backend", "yarn")
    _, cluster, number = job.split("_")
    for text in ("@last", "twice", f"{cluster}_{number}", job[: len("application_") + 4]):
        found = yarn.run("ytf", "status", text, "--json", *with_backend, code=None)
        # The beginning of the id fits the jobs of other tests, too.
        assert job in found.stdout + found.stderr
    lines = yarn.run("ytf", "logs", "twice", "worker:0#2", *with_backend).stdout
    assert lines == "worker:0#2 | attempt 2\n"
    ended = yarn.run("ytf", "kill", "--wait", "@last", *with_backend).stderr
    assert ended.splitlines()[-1] == f"ytf: job {job} has ended: KILLED"
    yarn.nothing_is_left(job)
    assert yarn.status(job)["state"] == "KILLED"


def test_what_was_uploaded_once_is_not_again(yarn: Yarn) -> None:
    first = yarn.submit("worker:1", "true")
    yarn.wait(first, "SUCCEEDED")
    stored = yarn.layers()
    second = yarn.submit("worker:1", "true")
    yarn.wait(second, "SUCCEEDED")
    assert yarn.layers() == stored
    assert stored


def test_a_failing_task_is_told_with_its_last_words(yarn: Yarn) -> None:
    command = 'echo "no such dataset" >&2; exit $((3 + DTF_TASK_INDEX))'
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", "--wait", "--framework", "none",
        "-m", "worker:128", "-r", "worker:1", command, code=1,
    )  # fmt: skip
    job = done.stdout.strip()
    assert "worker:0 exited with code 3" in done.stderr
    assert "no such dataset" in done.stderr
    status = yarn.status(job)
    assert status["final_status"] == "FAILED"
    assert "no such dataset" in status["diagnostics"]
    application = yarn.cluster.rm_rest(f"/apps/{job}")["app"]
    assert application["finalStatus"] == "FAILED"
    assert "no such dataset" in application["diagnostics"]
    yarn.nothing_is_left(job)


def test_a_running_job_is_seen_and_killed(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("ps:1,worker:2", gate + "echo begun; " + HERE + HOLD)
    yarn.wait_running(["ps:0", "worker:0", "worker:1"])
    assert yarn.wait(job, "RUNNING")["final_status"] is None
    assert "worker:1 | begun" in yarn.run("ytf", "logs", job).stdout.splitlines()
    yarn.run("ytf", "kill", job)
    status = yarn.wait(job, "KILLED")
    assert "Killed by" in status["diagnostics"]
    yarn.run("ytf", "kill", job)
    eventually(lambda: job not in yarn.staged(), 20, "the staging directory to go")
    yarn.nothing_is_left(job)


def test_a_killed_master_is_followed_by_another(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("ps:1,worker:2", gate + HERE + HOLD + "echo survived")
    programs = yarn.wait_running(["ps:0", "worker:0", "worker:1"])
    yarn.wait(job, "RUNNING")
    yarn.kill_master(job, tasks=3)
    eventually(lambda: "Master attempt 2" in yarn.run("ytf", "events", job).stdout, 60)
    seen = yarn.status(job)
    assert seen["state"] == "RUNNING", seen["diagnostics"]
    yarn.open_gate()
    status = yarn.wait(job, "SUCCEEDED")
    assert [task["attempt"] for task in status["tasks"]] == [1, 1, 1]
    assert yarn.wait_running(["ps:0", "worker:0", "worker:1"]) == programs
    lines = yarn.run("ytf", "logs", job).stdout.splitlines()
    assert "worker:1 | survived" in lines
    yarn.nothing_is_left(job)


def test_what_the_cluster_can_never_give_is_refused_at_once(yarn: Yarn) -> None:
    before = _applications(yarn)
    nowhere = yarn.run(
        "ytf-submit", "--backend", "yarn", "-r", "worker:1", "-q", "nowhere", "true", code=1
    )
    assert "there is no queue 'nowhere'" in nowhere.stderr
    assert "root.ml" in nowhere.stderr
    too_big = yarn.run(
        "ytf-submit", "--backend", "yarn", "-r", "worker:1", "-m", "worker:999999", "true", code=1
    )
    assert "worker:0 asks for 999999 memory-mb" in too_big.stderr
    assert "the biggest there can be: 32768 MB" in too_big.stderr
    gpus = yarn.run(
        "ytf-submit", "--backend", "yarn", "-r", "worker:1", "--task_gpus", "worker:3", "true",
        code=1,
    )  # fmt: skip
    assert "worker:0 asks for 3 yarn.io/gpu" in gpus.stderr
    assert _applications(yarn) == before
    unknown = yarn.run("ytf", "status", "application_1_0001", code=1)
    assert "YARN has no application application_1_0001, and ytf has no record" in unknown.stderr


def _applications(yarn: Yarn) -> set[str]:
    found = yarn.cluster.rm_rest("/apps")["apps"] or {"app": []}
    return {each["id"] for each in found["app"]}
