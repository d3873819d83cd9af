"""A real Hadoop: it serves, survives failures, and leaves nothing behind."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ytf.errors import RefusedError
from ytf.minicluster import MiniCluster
from ytf.minicluster.daemons import HOST
from ytf.minicluster.processes import all_of
from ytf.testing.waiting import eventually

USER = getpass.getuser()
YTF = [sys.executable, "-c", "from ytf.cli.main import main; raise SystemExit(main())"]


def ytf(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*YTF, "cluster", *words],
        env={**os.environ, "YTF_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def webhdfs(
    cluster: MiniCluster, method: str, path: str, query: str, body: bytes | None = None
) -> bytes:
    url = f"{cluster.daemons['nn'].web_url}webhdfs/v1{path}?{query}&user.name={USER}"
    with urlopen(Request(url, body, method=method), timeout=30) as answer:
        data: bytes = answer.read()
        return data


def write(cluster: MiniCluster, path: str, body: bytes) -> None:
    # The NameNode says which DataNode takes it; with ``noredirect`` it does so in JSON.
    told = json.loads(webhdfs(cluster, "PUT", path, "op=CREATE&overwrite=true&noredirect=true"))
    with urlopen(Request(told["Location"], body, method="PUT"), timeout=30) as answer:
        assert answer.status == 201


def submit(cluster: MiniCluster, command: str, queue: str = "default") -> str:
    """An application whose master is a command that never speaks to YARN; its id."""
    new: str = cluster.rm_rest(f"/apps/new-application?user.name={USER}", "POST")["application-id"]
    application = {
        "application-id": new,
        "application-name": "test",
        "application-type": "TEST",
        "queue": queue,
        "am-container-spec": {"commands": {"command": command}},
        "resource": {"memory": 128, "vCores": 1},
        "max-app-attempts": 1,
    }
    cluster.rm_rest(f"/apps?user.name={USER}", "POST", application)
    return new


def app(cluster: MiniCluster, application: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.rm_rest(f"/apps/{application}")["app"]
    return found


@pytest.fixture
def application(hadoop: MiniCluster, tmp_path: Path) -> Iterator[str]:
    """An application whose master's process runs; killed afterwards."""
    sign = tmp_path / "runs"
    submitted = submit(hadoop, f"touch '{sign}'; exec sleep 600", "ml")
    eventually(sign.exists, 60.0, lambda: f"the master runs: {app(hadoop, submitted)}")
    yield submitted
    hadoop.rm_rest(f"/apps/{submitted}/state?user.name={USER}", "PUT", {"state": "KILLED"})
    eventually(
        lambda: app(hadoop, submitted)["state"] == "KILLED", 30.0, "the end of the test's job"
    )


def test_it_is_what_was_asked_for(hadoop: MiniCluster) -> None:
    nodes = hadoop.rm_rest("/nodes")["nodes"]["node"]
    assert [node["state"] for node in nodes] == ["RUNNING"] * 2
    assert sorted(node["id"] for node in nodes) == sorted(hadoop.running_nodes())
    assert {node["availMemoryMB"] for node in nodes} == {32768}
    types = hadoop.rm_rest(f"/apps/new-application?user.name={USER}", "POST")
    offered = types["maximum-resource-capability"]["resourceInformations"]["resourceInformation"]
    assert {one["name"]: one["value"] for one in offered}["yarn.io/gpu"] == 2
    queues = hadoop.rm_rest("/scheduler")["scheduler"]["schedulerInfo"]["queues"]["queue"]
    assert {queue["queueName"]: queue["capacity"] for queue in queues} == {"default": 80, "ml": 20}
    assert {one.state for one in hadoop.status()} == {"RUNNING"}


def test_hdfs_keeps_what_is_written(hadoop: MiniCluster) -> None:
    body = os.urandom(300_000)
    write(hadoop, "/tmp/some bytes".replace(" ", "%20"), body)
    assert webhdfs(hadoop, "GET", "/tmp/some%20bytes", "op=OPEN") == body
    listed = hadoop.java("org.apache.hadoop.fs.FsShell", "-ls", "/tmp")
    assert listed.returncode == 0, listed.stderr
    assert "300000" in listed.stdout
    assert "/tmp/some bytes" in listed.stdout


def test_hadoop_finds_its_native_library(hadoop: MiniCluster) -> None:
    checked = hadoop.java("org.apache.hadoop.util.NativeLibraryChecker")
    assert "hadoop:  true" in checked.stdout


def test_a_killed_node_comes_back_by_name(hadoop: MiniCluster) -> None:
    before = hadoop.pid("nm1")
    hadoop.kill("nm1")
    assert hadoop.pid("nm1") is None
    assert [one.name for one in hadoop.status() if one.state == "DEAD"] == ["nm1"]
    hadoop.restart("nm1")
    assert hadoop.pid("nm1") not in (None, before)
    hadoop.wait_for_nodes(2)


def test_a_killed_resource_manager_remembers(hadoop: MiniCluster, application: str) -> None:
    hadoop.kill("rm")
    hadoop.restart("rm")
    hadoop.wait_for_nodes(2)
    found = app(hadoop, application)
    assert found["state"] == "ACCEPTED"
    assert found["queue"] == "root.ml"


def test_two_namenodes_change_places(hadoop_pair: MiniCluster) -> None:
    def roles() -> dict[str, str | None]:
        return {one.name: one.role for one in hadoop_pair.status() if one.kind == "NameNode"}

    first = hadoop_pair.active_nn().name
    second = hadoop_pair.fail_over_hdfs()
    assert {first, second} == {"nn", "nn2"}
    assert roles() == {first: "STANDBY", second: "ACTIVE"}
    assert hadoop_pair.fail_over_hdfs() == first
    assert roles() == {first: "ACTIVE", second: "STANDBY"}


def test_what_is_up_is_not_started_twice(hadoop: MiniCluster) -> None:
    with pytest.raises(RefusedError, match=r"is up already \(nn, dn, rm, nm1, nm2\)"):
        MiniCluster(hadoop.directory.root).start()
    assert {one.state for one in MiniCluster.open(hadoop.directory.root).status()} == {"RUNNING"}


def test_a_second_cluster_by_command(hadoop: MiniCluster, tmp_path: Path) -> None:
    """Beside the first, in a path that needs care, up to the last process, port and file."""
    home = tmp_path / "a höme"
    up = ytf("up", "--name", "second", "--nodes", "1", "--zookeeper", home=home)
    try:
        assert (up.returncode, up.stdout) == (0, ""), up.stderr
        assert "YARN is up with 1 node\n" in up.stderr
        second = MiniCluster.open(home / "clusters" / "second")
        ports = {port for one in second.status() for port in one.ports.values()}
        assert not ports & {port for one in hadoop.status() for port in one.ports.values()}
        write(second, "/tmp/x", b"second")
        assert len(second.running_nodes()) == 1
        assert len(hadoop.running_nodes()) == 2
        _see_status(home, second)
        _see_env(home, second)
        _see_it_kept(home, second)
        # A container whose NodeManager is gone is for us alone to end.
        sign = tmp_path / "runs"
        submit(second, f"touch '{sign}'; exec sleep 600")
        eventually(sign.exists, 60.0, "the container runs")
        second.kill("nm1")
        assert len(all_of(second.directory.root)) > len(second.daemons) - 1
    finally:
        down = ytf("down", "--name", "second", home=home)
    assert (down.returncode, down.stderr) == (0, "ytf: cluster second is down\n")
    assert [path.name for path in (home / "clusters").iterdir()] == [".second.lock"]
    assert all_of(second.directory.root) == []
    for port in ports:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, port))
    gone = ytf("status", "--name", "second", home=home)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "there is no cluster second\nhint: start one with: ytf cluster up" in gone.stderr


def _see_status(home: Path, cluster: MiniCluster) -> None:
    told = json.loads(ytf("status", "--name", "second", "--json", home=home).stdout)
    assert " ".join(told) == "name hadoop directory conf_dir hdfs daemons"
    assert [daemon["name"] for daemon in told["daemons"]] == ["zk", "nn", "dn", "rm", "nm1"]
    assert " ".join(told["daemons"][0]) == "name kind state role pid ports web_url"
    cluster.kill("zk")
    text = ytf("status", "--name", "second", home=home)
    assert text.returncode == 1
    assert text.stdout.splitlines()[1].split()[:5] == ["zk", "ZooKeeper", "DEAD", "-", "-"]
    restarted = ytf("restart", "--name", "second", "zk", home=home)
    assert restarted.returncode == 0, restarted.stderr
    assert ytf("status", "--name", "second", home=home).returncode == 0


def _see_it_kept(home: Path, cluster: MiniCluster) -> None:
    down = ytf("down", "--name", "second", "--keep", home=home)
    assert (down.returncode, all_of(cluster.directory.root)) == (0, [])
    other = ytf("up", "--name", "second", "--nodes", "3", home=home)
    assert other.returncode == 1
    assert "was kept with other options" in other.stderr
    up = ytf("up", "--name", "second", home=home)
    assert up.returncode == 0, up.stderr
    assert webhdfs(cluster, "GET", "/tmp/x", "op=OPEN") == b"second"


def _see_env(home: Path, cluster: MiniCluster) -> None:
    exports = ytf("env", "--name", "second", home=home).stdout
    shell = f'{exports}\nprintf %s "$HADOOP_CONF_DIR"'
    said = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout
    assert Path(said) == cluster.conf_dir
    assert (cluster.conf_dir / "yarn-site.xml").exists()
