"""With YARN's ACLs on, who may end a job and who may look at it is the cluster's word."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.backends.yarn.job.application import master_url
from ytf.backends.yarn.rm_client import RmClient
from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.minicluster import MiniCluster


@pytest.fixture
def alice(hadoop_acls: MiniCluster, yarn_home: Path, tmp_path: Path) -> Yarn:
    """A user who is no administrator: whoever runs the daemons is one."""
    (tmp_path / "gate").mkdir()
    return Yarn(hadoop_acls, yarn_home, tmp_path).as_user("alice")


def test_a_kill_that_is_refused_says_who_may_and_does_no_harm(alice: Yarn, gate: str) -> None:
    job = alice.submit("worker:1", gate + HERE + HOLD, "--acl_modify", "carol")
    bob, carol = alice.as_user("bob"), alice.as_user("carol")
    programs = alice.wait_running(["worker:0"])
    alice.wait(job, "RUNNING")

    refused = bob.run("ytf", "kill", job, code=1)
    assert f"ytf: error: bob may not kill {job}: it is alice's job\n" in refused.stderr
    assert "alice may, and whom alice names with --acl_modify" in refused.stderr
    assert "administrators of the queue" in refused.stderr
    assert "is being killed" not in refused.stderr
    [worker] = alice.status(job)["tasks"]
    assert (worker["state"], worker["attempt"]) == ("RUNNING", 1)
    assert alice.wait_running(["worker:0"]) == programs
    assert "bob" not in alice.run("ytf", "events", job).stdout

    carol.run("ytf", "kill", job)
    assert "Killed by carol" in alice.wait(job, "KILLED")["diagnostics"]
    alice.nothing_is_left(job)


def test_a_queue_that_everybody_administers_lets_everybody_kill(alice: Yarn, gate: str) -> None:
    job = alice.submit("worker:1", gate + HERE + HOLD, "-q", "open")
    alice.wait_running(["worker:0"])
    bob = alice.as_user("bob")
    assert f"job {job} is being killed" in bob.run("ytf", "kill", job).stderr
    assert "Killed by bob" in alice.wait(job, "KILLED")["diagnostics"]
    alice.nothing_is_left(job)


def test_administrators_of_the_queue_and_of_the_cluster_may_kill(alice: Yarn, gate: str) -> None:
    for name in ("queue_admin", "cluster_admin"):
        job = alice.submit("worker:1", "exec sleep 600")
        admin = alice.as_user(name)
        admin.run("ytf", "kill", job)
        assert f"Killed by {name}" in alice.wait(job, "KILLED")["diagnostics"]
        alice.nothing_is_left(job)


def test_who_may_look_at_another_users_job(alice: Yarn, gate: str) -> None:
    job = alice.submit("worker:1", gate + HERE + HOLD, "--acl_view", "carol")
    bob, carol = alice.as_user("bob"), alice.as_user("carol")
    alice.wait_running(["worker:0"])
    alice.wait(job, "RUNNING")

    for user in (bob, carol):
        seen = user.status(job)
        assert (seen["user"], seen["state"], seen["tasks"]) == ("alice", "RUNNING", [])
        assert "Only alice can see its tasks" in seen["diagnostics"]
        for asked in ("events", "logs", "spec"):
            assert "only alice may see" in user.run("ytf", asked, job, code=1).stderr
    # Where its page is YARN tells only those who may view the job; so does the page itself.
    assert bob.status(job)["tracking_url"] is None
    assert carol.status(job)["tracking_url"]
    page = _page_of_master(alice, job)
    assert _status_of(page, "carol") == 200
    assert _status_of(page, "alice") == 200
    assert _status_of(page, "bob") == 403

    alice.open_gate()
    alice.wait(job, "SUCCEEDED")
    for user in (bob, carol):
        assert user.status(job)["state"] == "SUCCEEDED"
    alice.nothing_is_left(job)


def test_a_doctor_tells_who_may_submit(alice: Yarn) -> None:
    told = alice.run("ytf", "doctor", "--no_remote", "-q", "closed", code=1).stdout
    assert "FAIL  queue            you may not submit to the queue root.closed\n" in told
    assert "hint: queues you may submit to: root.default, root.open" in " ".join(told.split())
    told = alice.run("ytf", "doctor", "--no_remote", "-q", "open").stdout
    assert "ok    queue            root.open is running, and you may submit" in told


def _page_of_master(user: Yarn, job: str) -> str:
    rm = RmClient(Configuration.load(user.cluster.conf_dir), "alice")
    found = master_url(rm.call(lambda protocol: protocol.report(ApplicationId.parse(job))))
    assert found is not None
    # The proxy is on this machine, and so are we: only its cookie tells the users apart.
    return f"http://127.0.0.1:{urlsplit(found).port}/"


def _status_of(page: str, user: str) -> int:
    request = urllib.request.Request(page, headers={"Cookie": f"proxy-user={user}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
