"""``ytf gc`` on a real cluster: what goes, and what must not."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.backends.local.directories import JobDirectories
from ytf.backends.yarn.hdfs_layout import JobHome, Submitter, YarnHome
from ytf.cli.gc import cluster_gc_report
from ytf.hadoop.conf import Configuration
from ytf.specs.ids import JobId
from ytf.testing.waiting import eventually


def test_what_is_left_goes_and_what_is_needed_stays(yarn: Yarn, gate: str) -> None:
    killed = yarn.submit("worker:1", gate + HERE + HOLD, "-n", "killed")
    yarn.wait_running(["worker:0"])
    running = yarn.submit("ps:1", gate + HERE + HOLD)
    yarn.wait_running(["ps:0"])
    _wait_for_sweep(yarn)
    _kill_without_us(yarn, killed)

    conf = Configuration.load(yarn.cluster.conf_dir)
    me = Submitter.current(conf)
    theirs = msgspec.structs.replace(me, machine="another")
    elsewhere = msgspec.structs.replace(theirs, cluster=("other:8032",))
    under_way = _staged(yarn, 9001, me)
    abandoned = _staged(yarn, 9002, msgspec.structs.replace(me, start_ticks=1))
    young = _staged(yarn, 9003, theirs)
    old = _staged(yarn, 9004, theirs, days=1.1)
    foreign = _staged(yarn, 9005, elsewhere, days=99)
    forgotten = _staged(yarn, 9006, theirs, days=1.1)
    _copy(yarn, running, forgotten, "job.json")
    yarn.files.mkdir(f"{forgotten.journal}/0001")
    yarn.age(forgotten.staging, days=1.1)

    going = [killed, *(_name(each) for each in (abandoned, old, forgotten))]
    staying = [running, *(_name(each) for each in (under_way, young, foreign))]
    told = yarn.run("ytf", "gc", "--dryrun").stdout
    assert [name for name in going if name not in told] == []
    assert set(going + staying) <= set(yarn.staged())
    done = yarn.run("ytf", "gc")
    assert done.stdout == told
    assert [name for name in staying if name in told] == []
    assert "removed 4 things" in done.stderr
    assert set(yarn.staged()) & set(going + staying) == set(staying)

    assert yarn.run("ytf", "gc").stdout == ""
    assert yarn.status(killed)["state"] == "KILLED"
    status = yarn.status(_name(forgotten))
    assert (status["state"], status["diagnostics"][:29]) == (
        "FAILED", "The job did not end in good o",
    )  # fmt: skip
    record = f"{yarn.root}/history/{killed}"
    yarn.age(record, days=7.1)
    yarn.open_gate()
    yarn.wait(running, "SUCCEEDED")
    told = yarn.run("ytf", "gc").stdout
    assert [line.split()[-1] for line in told.splitlines()[1:]] == [yarn.files.uri(record)]
    for home in (under_way, young, foreign):
        home.remove_staging()


def test_commands_collect_on_the_way_without_waiting(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:1", gate + HERE + HOLD)
    yarn.wait_running(["worker:0"])
    _wait_for_sweep(yarn)
    _kill_without_us(yarn, job)
    told = _report(yarn)
    os.utime(told, (0, 0))
    yarn.run("ytf", "list")
    eventually(lambda: job not in yarn.staged(), 60, "the staging directory to go")
    eventually(lambda: "ytf: removed 1 thing" in told.read_text(), 10)
    assert job in told.read_text()


def test_an_ended_job_is_removed_by_its_owner_only(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:1", gate + HERE + HOLD)
    yarn.wait_running(["worker:0"])
    refused = yarn.run("ytf", "rm", job, code=1).stderr
    assert f"job {job} has not ended" in refused
    assert f"ytf kill {job}" in refused
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    yarn.nothing_is_left(job)
    bob = yarn.as_user("bob")
    forbidden = bob.run("ytf", "rm", job, code=1).stderr
    assert "Traceback" not in forbidden
    history = f"{yarn.root}/history"
    assert job in [each.name for each in yarn.files.list(history)]
    assert f"removed the record of job {job}" in yarn.run("ytf", "rm", job).stderr
    assert job not in [each.name for each in yarn.files.list(history)]
    assert yarn.status(job)["state"] == "SUCCEEDED", "YARN still knows it"


def _report(yarn: Yarn) -> Path:
    return cluster_gc_report(JobDirectories(yarn.home), yarn.cluster.conf_dir)


def _wait_for_sweep(yarn: Yarn) -> None:
    """The first command of all has begun one, which must not do a test's work."""
    told = _report(yarn)
    eventually(lambda: "remove" in told.read_text(), 60, told.read_text)


def _kill_without_us(yarn: Yarn, job: str) -> None:
    """As ``yarn application -kill`` does."""
    state = f"/apps/{job}/state"
    yarn.cluster.rm_rest(f"{state}?user.name={yarn.name}", "PUT", {"state": "KILLED"})
    eventually(lambda: yarn.cluster.rm_rest(state)["state"] == "KILLED", 30, "the job's end")


def _staged(yarn: Yarn, number: int, submitter: Submitter, days: float = 0.0) -> JobHome:
    """What is staged of a job that YARN knows nothing of."""
    conf = Configuration.load(yarn.cluster.conf_dir)
    home = YarnHome.of(yarn.files, conf, yarn.name).job(
        JobId(f"application_1700000000000_{number}")
    )
    home.files.mkdir(home.staging)
    home.write_submitter(submitter)
    yarn.age(home.staging, days)
    return home


def _copy(yarn: Yarn, job: str, to: JobHome, *names: str) -> None:
    for name in names:
        data = b"".join(yarn.files.read(f"{yarn.root}/jobs/{job}/{name}"))
        to.files.write(f"{to.staging}/{name}", [data])


def _name(home: JobHome) -> str:
    return home.staging.rpartition("/")[2]
