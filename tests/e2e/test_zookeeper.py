"""Jobs that use a real ZooKeeper as their registry: what is in it, and what happens without it."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator

import pytest
from kazoo.security import ACL, ANYONE_ID_UNSAFE, Permissions

from tests.e2e.harness import FOREVER, HERE, HOLD, Job, Ytf, kill, stop, wait_dead
from tests.zookeeper_reader import Reader, reading
from ytf.minicluster import ZooKeeperEnsemble
from ytf.testing.waiting import eventually

pytestmark = pytest.mark.timeout(300)

HOSTS = (
    'echo "$DTF_PS_HOSTS $DTF_WORKER_HOSTS" >"$GATE/.$YTF_TASK"; '
    'mv "$GATE/.$YTF_TASK" "$GATE/hosts.$YTF_TASK.$YTF_ATTEMPT"; '
)
FAIL_ONCE = HERE + 'if [ "$YTF_TASK.$YTF_ATTEMPT" = worker:0.1 ]; then ' + HOLD + "exit 1; fi; "
"""``worker:0`` fails when the gate is opened; its second attempt goes on."""
AGAIN = 'until [ -e "$GATE/end" ]; do sleep 0.02; done'


@pytest.fixture
def zk(zookeeper: ZooKeeperEnsemble) -> Iterator[Reader]:
    """An independent client; the server runs before and after each test, and is empty."""
    with reading(zookeeper.addresses) as reader:
        yield reader
        if not zookeeper.serves(0):
            zookeeper.start(0)
        try:
            reader.wait_empty()
        finally:
            # A test that failed is not to fail those after it.
            if reader.exists(reader.user):
                reader.client.delete(reader.user, recursive=True)


def registry_of(servers: ZooKeeperEnsemble) -> str:
    return "zk://" + ",".join(servers.addresses)


def submit(ytf: Ytf, servers: ZooKeeperEnsemble, needs: str, command: str, *more: str) -> Job:
    return ytf.submit(needs, command, "--registry", registry_of(servers), *more)


def restarting(ytf: Ytf, servers: ZooKeeperEnsemble) -> Job:
    """A job whose first worker is restarted when the gate is opened."""
    options = ("--on_failure", "worker:restart-task")
    return submit(ytf, servers, "ps:1,worker:2", FAIL_ONCE + HOSTS + AGAIN, *options)


def starter_log(job: Job, task: str) -> str:
    return (job.history / "logs" / task.replace(":", "-") / "starter.log").read_text()


def test_another_program_reads_what_the_seed_promises(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    job = submit(ytf, zookeeper, "ps:1,worker:2", HOSTS + HERE + HOLD)
    job.wait_running("ps:0", "worker:0", "worker:1")
    instance = f"/registry/users/{getpass.getuser()}/TensorFlow/{job.id}"
    spec = zk.document(instance)
    ps, workers = ytf.told("hosts.worker:0.1").split()
    assert (spec["DTF_PS_HOSTS"], spec["DTF_WORKER_HOSTS"]) == (ps, workers)
    components = zk.components(instance)
    assert set(components) == {"ps:0", "worker:0", "worker:1"}
    ports = [address.rpartition(":")[2] for address in (ps, *workers.split(","))]
    assert [components[task]["task_port"] for task in sorted(components)] == ports
    containers = {f"{t.group}:{t.index}": t.container for t in job.status().tasks}
    assert {task: each["container"] for task, each in components.items()} == containers
    for container in containers.values():
        assert zk.exists(f"{instance}/components/{container}").ephemeralOwner != 0
    assert zk.exists(instance).ephemeralOwner == 0
    log = starter_log(job, "worker:0")
    assert "worker:0 is in ZooKeeper" in log
    assert "telling it" not in log, "it was registered by ZooKeeper alone"
    assert "asking the master" not in log, "and so it learned of the cluster spec"
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert zk.exists(instance) is None, "removed before the job is recorded"
    zk.wait_empty()


def test_names_chroot_and_root(ytf: Ytf, zookeeper: ZooKeeperEnsemble) -> None:
    registry = registry_of(zookeeper) + "/some/chroot?root=/my/root"
    name = "größer / 100 % 🐘"
    with reading(zookeeper.addresses, "/some/chroot/my/root") as zk:
        job = ytf.submit("worker:1", HERE + HOLD, "--registry", registry, "-n", name)
        job.wait_running("worker:0")
        (found,) = zk.children(zk.user)
        assert found == "größer %2F 100 %25 %F0%9F%90%98"
        spec = zk.document(zk.instance(job.id, found))
        assert spec["description"] == name
        ytf.open_gate()
        job.end("SUCCEEDED")
        zk.wait_empty()


def test_the_quorum_of_hadoops_configuration(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    ytf.env["HADOOP_CONF_DIR"] = str(ytf.work)
    quorum = ",".join(zookeeper.addresses)
    (ytf.work / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.registry.zk.quorum</name>"
        f"<value>{quorum}</value></property></configuration>"
    )
    job = ytf.submit("worker:1", HERE + HOLD, "--registry", "zk")
    job.wait_running("worker:0")
    zk.wait_components(zk.instance(job.id), "worker:0")
    ytf.open_gate()
    job.end("SUCCEEDED")


def test_a_server_that_is_killed_and_started_again(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    job = submit(ytf, zookeeper, "worker:2", HERE + HOLD)
    job.wait_running("worker:0", "worker:1")
    before = zk.document(zk.instance(job.id))
    zookeeper.kill(0)
    zookeeper.start(0)
    zk.wait_components(zk.instance(job.id), "worker:0", "worker:1")
    assert zk.document(zk.instance(job.id)) == before
    ytf.open_gate()
    job.end("SUCCEEDED")


def test_tasks_start_and_restart_without_zookeeper(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    job = restarting(ytf, zookeeper)
    job.wait_running("ps:0", "worker:0", "worker:1")
    zookeeper.kill(0)
    ytf.open_gate()
    again = ytf.told("hosts.worker:0.2")
    assert again == ytf.told("hosts.ps:0.1"), "it has kept its port"
    log = starter_log(job, "worker:0")
    assert "the master has not seen attempt 2 in ZooKeeper: telling it" in log
    eventually(
        lambda: any("ZooKeeper cannot be reached (127" in e.text for e in job.events()),
        describe="the events tell",
    )
    zookeeper.start(0)
    # What happened meanwhile is there now.
    found = zk.wait_components(zk.instance(job.id), "ps:0", "worker:0", "worker:1")
    eventually(lambda: _attempt(zk, job, "worker:0") == "2", 60, "attempt 2 is published")
    assert found["worker:1"]["ytf_attempt"] == "1"
    eventually(
        lambda: any("ZooKeeper can be reached again" in e.text for e in job.events()),
        describe="and that it is over",
    )
    ytf.tell("end")
    job.end("SUCCEEDED")


def _attempt(zk: Reader, job: Job, task: str) -> str | None:
    component = zk.components(zk.instance(job.id)).get(task, {})
    return component.get("ytf_attempt")


def test_who_can_write_every_node_can_neither_end_nor_steer_a_job(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    job = restarting(ytf, zookeeper)
    job.wait_running("ps:0", "worker:0", "worker:1")
    instance = zk.instance(job.id)
    components = zk.wait_components(instance, "ps:0", "worker:0", "worker:1")
    genuine, _ = zk.get(instance)
    forged = {**json.loads(genuine), "DTF_PS_HOSTS": "evil:1", "ytf_revision": "99"}
    paths = {
        task: f"{instance}/components/{each['container']}" for task, each in components.items()
    }
    # The node of the task that is about to register belongs to somebody else, who keeps it.
    later = {**components["worker:0"], "ytf_attempt": "2"}
    theirs = zk.client.transaction()
    theirs.delete(paths["worker:0"])
    theirs.create(paths["worker:0"], json.dumps(later).encode())
    theirs.create(f"{paths['worker:0']}/theirs", b"")
    assert all(isinstance(made, (bool, str)) for made in theirs.commit())
    zk.client.delete(paths["ps:0"])
    zk.client.set(paths["worker:1"], b"x" * 500_000)
    zk.client.set(instance, json.dumps(forged).encode())
    ytf.open_gate()
    assert ytf.told("hosts.worker:0.2") == ytf.told("hosts.ps:0.1")
    eventually(
        lambda: any("Somebody else writes" in note for note in _notes(job)),
        describe=lambda: f"the status says so: {_notes(job)}",
    )
    # What is ours comes back where it can.
    eventually(lambda: "ytf_signature" in _parsed(zk, paths["ps:0"]), 60, "ps:0 is back")
    eventually(lambda: "ytf_signature" in _parsed(zk, paths["worker:1"]), 60, "worker:1 is back")
    eventually(lambda: zk.document(instance) == json.loads(genuine), 60, "the spec is back")
    zk.client.delete(paths["worker:0"], recursive=True)
    ytf.tell("end")
    job.end("SUCCEEDED")


def _parsed(zk: Reader, path: str) -> dict[str, object]:
    try:
        return zk.document(path)
    except ValueError:
        return {}


def _notes(job: Job) -> list[str]:
    return [*job.ytf.run("ytf", "status", job.id).stdout.splitlines()]


def test_a_master_that_is_killed(ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader) -> None:
    job = restarting(ytf, zookeeper)
    job.wait_running("ps:0", "worker:0", "worker:1")
    before = zk.document(zk.instance(job.id))
    master = job.master()
    kill(master)
    wait_dead(master)
    job.wait_events("master-started", 2)
    assert zk.document(zk.instance(job.id)) == before
    registered = [e for e in job.events() if e.event == "starter-registered"]
    assert len(registered) == 3, "nobody registers again"
    ytf.open_gate()
    ytf.told("hosts.worker:0.2")
    assert "telling it" not in starter_log(job, "worker:0"), "the new master looks, too"
    ytf.tell("end")
    job.end("SUCCEEDED")


def test_what_a_dead_job_left_is_removed_by_the_next_command(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    job = submit(ytf, zookeeper, "worker:1", HERE + FOREVER)
    job.wait_running("worker:0")
    node, master = job.node(), job.master()
    stop(node, master)
    kill(node, master)
    wait_dead(node, master)
    assert zk.document(zk.instance(job.id)) != {}
    ytf.run("ytf", "list")
    job.end("FAILED")
    zk.wait_empty()


def test_a_zookeeper_that_is_away_at_the_end_is_emptied_by_gc(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    job = submit(ytf, zookeeper, "worker:1", HERE + HOLD)
    job.wait_running("worker:0")
    zookeeper.kill(0)
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert "is left in ZooKeeper, and `ytf gc` removes it" in job.master_log()
    away = ytf.run("ytf", "gc")
    assert f"what job {job.id} may have left in ZooKeeper stays" in away.stderr
    zookeeper.start(0)
    assert zk.document(zk.instance(job.id)) != {}
    assert "znodes in ZooKeeper" in ytf.run("ytf", "gc", "--dryrun").stdout
    assert zk.document(zk.instance(job.id)) != {}
    assert zk.instance(job.id) in ytf.run("ytf", "gc").stdout
    zk.wait_empty()
    assert "nothing to remove" in ytf.run("ytf", "gc").stderr


def test_a_zookeeper_that_cannot_be_used_is_told_before_submission(
    ytf: Ytf, zookeeper: ZooKeeperEnsemble, zk: Reader
) -> None:
    submit = ("ytf-submit", "--framework", "none", "-r", "worker:1", "--registry")
    away = ytf.run(*submit, "zk://127.0.0.1:1,no-such-host.invalid:2181", "true", code=1)
    assert away.stdout == ""
    assert "127.0.0.1:1: Connection refused" in away.stderr
    assert "no-such-host.invalid:2181: the name is not known" in away.stderr
    assert "hint: check the address" in away.stderr
    readers = [ACL(Permissions.READ, ANYONE_ID_UNSAFE)]
    zk.client.create("/closed", b"", acl=readers)
    refused = ytf.run(*submit, registry_of(zookeeper) + "?root=/closed", "true", code=1)
    assert "you may not make znodes below /closed in ZooKeeper" in refused.stderr
    assert not list(ytf.home.glob("jobs/*"))


def test_an_ensemble_of_three(ytf: Ytf, zookeeper_ensemble: ZooKeeperEnsemble) -> None:
    servers = zookeeper_ensemble
    with reading(servers.addresses) as zk:
        servers.kill(0)
        job = restarting(ytf, servers)
        job.wait_running("ps:0", "worker:0", "worker:1")
        log = starter_log(job, "ps:0")
        assert "ps:0 is in ZooKeeper" in log, "two of three are enough"
        servers.start(0)
        before = zk.document(zk.instance(job.id))
        servers.restart()
        eventually(lambda: zk.document(zk.instance(job.id)) == before, 60, "the spec is there")
        zk.wait_components(zk.instance(job.id), "ps:0", "worker:0", "worker:1")
        ytf.open_gate()
        ytf.told("hosts.worker:0.2")
        eventually(lambda: _attempt(zk, job, "worker:0") == "2", 60, "attempt 2 is published")
        assert all(t.attempt == 1 for t in job.status().tasks if t.group == "ps")
        ytf.tell("end")
        job.end("SUCCEEDED")
        zk.wait_empty()
