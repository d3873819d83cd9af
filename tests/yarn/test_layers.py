"""Layers in a real HDFS that are uploaded by two, half, or not there when a node wants them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.yarn.driver import HERE, HOLD, SMALL, Yarn
from ytf.packaging.layer_store import LayerFileName
from ytf.storage.files import FileStatus, is_temporary

SUBMIT = ("ytf-submit", "--backend", "yarn", *SMALL, "--wait", "-r", "worker:1")


def test_an_upload_that_is_killed_and_two_at_once(yarn: Yarn) -> None:
    alice = yarn.as_user("alice")
    with alice.started(*SUBMIT, "true") as killed:
        # Both are written at once, and by the second it is known who submits.
        while not (_uploads(alice) and _submitter_is_known(alice)):
            assert killed.process.poll() is None, killed.output.read()
        killed.process.send_signal(signal.SIGSTOP)
        assert _uploads(alice), "it was done before it could be stopped"
        killed.process.kill()
    with alice.started(*SUBMIT, "true") as one, alice.started(*SUBMIT, "true") as two:
        jobs = {one.job(), two.job()}
        one.end(0)
        two.end(0)
    # Both may have packed a layer, and bytecode is not the same twice: then both are there.
    stored = {each.path: LayerFileName.parse(each.name) for each in _stored(alice)}
    assert {path: yarn.files.stat(path).size for path in stored} == {
        path: slot.size for path, slot in stored.items() if slot is not None
    }
    [left] = set(alice.staged()) - jobs
    uploads = _uploads(alice)
    for each in uploads:
        alice.age(each.path, days=1.1)
    told = alice.run("ytf", "gc", "--dryrun").stdout
    assert [name for name in (left, *(each.name for each in uploads)) if name not in told] == []
    assert alice.run("ytf", "gc").stdout == told
    assert _uploads(alice) == []
    assert alice.staged() == []
    assert alice.run("ytf", "gc").stdout == ""


def test_layers_that_are_lost_or_damaged_are_replaced_beside_a_running_job(
    yarn: Yarn, gate: str
) -> None:
    # Of her own: what is in the store is what this job uses.
    dora = yarn.as_user("dora")
    job = dora.submit("worker:1", gate + HERE + HOLD)
    dora.wait_running(["worker:0"])
    before = _stored(dora)
    lost, damaged = before[0], before[1]
    yarn.files.delete(lost.path)
    yarn.files.delete(damaged.path)
    yarn.files.write(damaged.path, [b"x" * damaged.size], damaged.mode)
    yarn.give(damaged.path, "dora")
    found = dora.run("ytf", "gc", "--verify").stdout.splitlines()
    assert [line.split()[-1] for line in found if line.startswith("damaged layer")] == [
        yarn.files.uri(damaged.path)
    ]
    dora.run(*SUBMIT, "true")
    after = {each.path for each in _stored(dora)}
    assert {each.path for each in before} <= after, "no path was taken from the running job"
    [mended] = after - {each.path for each in before}
    assert mended.rpartition("/")[0] == damaged.path.rpartition("/")[0]
    dora.open_gate()
    assert dora.wait(job, "SUCCEEDED")["tasks"][0]["attempt"] == 1


def test_a_node_that_cannot_fetch_a_layer_and_a_store_open_to_all(yarn: Yarn) -> None:
    carol = yarn.as_user("carol")
    with _nodes_stopped(yarn):
        job = carol.submit("worker:1", "true")
        biggest = max(_stored(carol), key=lambda each: each.size)
        for each in _stored(carol):
            yarn.files.delete(each.path)
    told = carol.wait(job, "FAILED")["diagnostics"].splitlines()
    assert told[0].startswith("The layer hdfs://")
    assert told[0].endswith("submit the job again, which stores it anew.")
    assert not [line for line in told if line.startswith("\tat ")]
    carol.nothing_is_left(job)

    for place in ("/user/carol", "/user/carol/.ytf", "/user/carol/.ytf/layers"):
        yarn.files.chmod(place, 0o755)
    carol.run(*SUBMIT, "true")
    # All but one: a configuration may hold passwords.
    assert sorted(each.mode for each in _stored(carol))[:2] == [0o600, 0o644]
    # Where nodes keep what all their users share.
    directory = yarn.cluster.conf_dir.parents[1]
    assert list(directory.glob(f"**/local*/filecache/*/{biggest.name}"))


def test_a_home_that_others_can_replace_is_not_used(yarn: Yarn) -> None:
    frank = yarn.as_user("frank")
    yarn.files.chmod("/user/frank", 0o777)
    told = frank.run(*SUBMIT, "true", code=2).stderr
    assert "/user/frank can be written by others: its mode is 777" in told
    assert "hint: let its owner, frank, close it: hdfs dfs -chmod go-w /user/frank\n" in told
    assert frank.staged() == []
    yarn.files.chmod("/user/frank", 0o755)
    yarn.give("/user/frank", "eve")
    # He must be able to write there, or HDFS refuses it before ytf does.
    yarn.files.mkdir("/user/frank/.ytf/jobs", 0o700)
    for place in ("/user/frank/.ytf", "/user/frank/.ytf/jobs"):
        yarn.give(place, "frank")
    assert "/user/frank belongs to eve" in frank.run(*SUBMIT, "true", code=2).stderr
    yarn.give("/user/frank", "frank")
    frank.run(*SUBMIT, "true")


@contextmanager
def _nodes_stopped(yarn: Yarn) -> Iterator[None]:
    names = [name for name in yarn.cluster.daemons if name.startswith("nm")]
    for name in names:
        yarn.cluster.kill(name, signal.SIGSTOP)
    try:
        yield
    finally:
        for name in names:
            yarn.cluster.kill(name, signal.SIGCONT)


def _stored(yarn: Yarn) -> list[FileStatus]:
    """The layers of a user, by path."""
    return [each for each in _in_store(yarn) if LayerFileName.parse(each.name) is not None]


def _uploads(yarn: Yarn) -> list[FileStatus]:
    """Files that are being written to a user's store, or were."""
    return [each for each in _in_store(yarn) if is_temporary(each.name)]


def _submitter_is_known(yarn: Yarn) -> bool:
    jobs = [yarn.files.list(f"{yarn.root}/jobs/{job}") for job in yarn.staged()]
    return any(each.name == "submitter.json" for files in jobs for each in files)


def _in_store(yarn: Yarn) -> list[FileStatus]:
    try:
        folders = yarn.files.list(f"{yarn.root}/layers/{yarn.name}")
    except FileNotFoundError:
        return []
    named = [folder.path for folder in folders if folder.name != "uses"]
    return [each for path in named for each in yarn.files.list(path)]
