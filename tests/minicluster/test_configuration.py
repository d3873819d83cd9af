from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from ytf.minicluster import ClusterOptions, Queue
from ytf.minicluster.configuration import conf_files, to_xml
from ytf.minicluster.directory import ClusterDirectory, ClusterRecord

LAYOUT = ClusterDirectory(Path("/home/me/my clusters/one"))
HDFS, YARN = "hdfs-site.xml", "yarn-site.xml"


def properties(text: str) -> dict[str, str]:
    return {
        one.findtext("name", ""): one.findtext("value", "") for one in ET.fromstring(text.encode())
    }


def files(options: ClusterOptions, daemon: str | None = None) -> dict[str, dict[str, str]]:
    daemons = ClusterRecord.new(options).daemons
    found = conf_files(options, LAYOUT, daemons, daemons[daemon] if daemon else None)
    return {name: properties(text) for name, text in found.items() if name.endswith(".xml")}


def test_any_text_survives_xml() -> None:
    values = {"a<b": "x & y > z", "quotes": "\"'", "name": "hôme"}
    assert properties(to_xml(values)) == values


def test_clients_learn_where_things_are_and_nothing_of_nodes() -> None:
    record = ClusterRecord.new(ClusterOptions())
    nn, rm = record.daemons["nn"], record.daemons["rm"]
    found = {
        name: properties(text)
        for name, text in conf_files(record.options, LAYOUT, record.daemons, None).items()
        if name.endswith(".xml")
    }
    assert sorted(found) == ["core-site.xml", "hdfs-site.xml", YARN]
    assert found["core-site.xml"]["fs.defaultFS"] == f"hdfs://127.0.0.1:{nn.ports['rpc']}"
    assert found[YARN]["yarn.resourcemanager.address"] == f"127.0.0.1:{rm.ports['rpc']}"
    assert found[YARN]["yarn.resourcemanager.webapp.address"] == f"127.0.0.1:{rm.ports['web']}"
    assert not [key for key in found[YARN] if key.endswith("local-dirs")]


def test_every_port_is_given_to_one_only() -> None:
    record = ClusterRecord.new(ClusterOptions(nodes=5, ha=True))
    ports = [port for ports in record.ports.values() for port in ports.values()]
    assert len(set(ports)) == len(ports) == 1 + 2 * 2 + 3 + 2 * 5 + 5 * 4


def test_each_node_has_its_own_places() -> None:
    options = ClusterOptions(nodes=2, node_memory_mb=2048, node_vcores=3)
    one, two = (files(options, name)[YARN] for name in ("nm1", "nm2"))
    assert one["yarn.nodemanager.local-dirs"] == "/home/me/my clusters/one/data/nm1/local"
    assert one["yarn.nodemanager.resource.memory-mb"] == "2048"
    assert one["yarn.nodemanager.resource.cpu-vcores"] == "3"
    for key in ("address", "localizer.address", "webapp.address", "local-dirs", "log-dirs"):
        assert one[f"yarn.nodemanager.{key}"] != two[f"yarn.nodemanager.{key}"]


def test_gpus_are_counted() -> None:
    options = ClusterOptions(gpus=3)
    assert files(options, "nm1")["node-resources.xml"] == {
        "yarn.nodemanager.resource-type.yarn.io/gpu": "3"
    }
    for who in (None, "rm", "nm1"):
        assert files(options, who)["resource-types.xml"] == {"yarn.resource-types": "yarn.io/gpu"}
    assert "resource-types.xml" not in files(ClusterOptions())


def test_queues_and_labels() -> None:
    options = ClusterOptions(
        queues=(Queue("default", 60), Queue("ml", 40)), labels={"nm2": "gpu"}, preemption=True
    )
    scheduler = files(options, "rm")["capacity-scheduler.xml"]
    root = "yarn.scheduler.capacity.root"
    assert scheduler[f"{root}.queues"] == "default,ml"
    assert scheduler[f"{root}.ml.capacity"] == "40"
    assert scheduler[f"{root}.accessible-node-labels.gpu.capacity"] == "100"
    assert scheduler[f"{root}.ml.accessible-node-labels.gpu.capacity"] == "40"
    site = files(options)[YARN]
    assert site["yarn.node-labels.enabled"] == "true"
    assert site["yarn.resourcemanager.scheduler.monitor.enable"] == "true"
    plain = files(ClusterOptions())[YARN]
    assert not {"yarn.node-labels.enabled", "yarn.resourcemanager.scheduler.monitor.enable"} & set(
        plain
    )


def test_a_pair_of_resource_managers() -> None:
    options = ClusterOptions(ha=True)
    first, second = files(options, "rm")[YARN], files(options, "rm2")[YARN]
    assert first["yarn.resourcemanager.ha.rm-ids"] == "rm1,rm2"
    assert first["yarn.resourcemanager.ha.id"] == "rm1"
    assert second["yarn.resourcemanager.ha.id"] == "rm2"
    assert "yarn.resourcemanager.ha.id" not in files(options)[YARN]
    assert "yarn.resourcemanager.address" not in first
    assert first["yarn.resourcemanager.store.class"].endswith("ZKRMStateStore")
    assert first["yarn.resourcemanager.zk-address"] == first["hadoop.zk.address"]


def test_a_pair_of_namenodes() -> None:
    record = ClusterRecord.new(ClusterOptions(ha=True))
    one, two = record.daemons["nn"], record.daemons["nn2"]

    def of(daemon: str | None) -> dict[str, dict[str, str]]:
        who = record.daemons[daemon] if daemon else None
        found = conf_files(record.options, LAYOUT, record.daemons, who)
        return {name: properties(text) for name, text in found.items() if name.endswith(".xml")}

    clients = of(None)
    assert clients["core-site.xml"]["fs.defaultFS"] == "hdfs://ytf"
    site = clients[HDFS]
    assert site["dfs.nameservices"] == "ytf"
    assert site["dfs.ha.namenodes.ytf"] == "nn1,nn2"
    assert site["dfs.namenode.rpc-address.ytf.nn1"] == one.address("rpc")
    assert site["dfs.namenode.rpc-address.ytf.nn2"] == two.address("rpc")
    assert not {"dfs.namenode.rpc-address", "dfs.ha.namenode.id", "dfs.namenode.name.dir"} & set(
        site
    )
    first, second = of("nn")[HDFS], of("nn2")[HDFS]
    assert (first["dfs.ha.namenode.id"], second["dfs.ha.namenode.id"]) == ("nn1", "nn2")
    assert first["dfs.namenode.name.dir"] != second["dfs.namenode.name.dir"]
    shared = "dfs.namenode.shared.edits.dir"
    assert first[shared] == second[shared] == "/home/me/my clusters/one/data/edits"
    assert "dfs.nameservices" not in files(ClusterOptions())[HDFS]


def test_the_token_roll_over_is_slow_enough() -> None:
    """The ResourceManager refuses to start otherwise."""
    site = files(ClusterOptions())[YARN]
    expiry_ms = int(site["yarn.am.liveness-monitor.expiry-interval-ms"])
    rolling_s = int(site["yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs"])
    assert rolling_s * 1000 > 3 * expiry_ms


def test_given_properties_win_and_find_their_file() -> None:
    given = {"dfs.replication": "2", "yarn.acl.enable": "true", "ipc.x": "1"}
    found = files(ClusterOptions(properties=given), "nm1")
    assert found["hdfs-site.xml"]["dfs.replication"] == "2"
    assert found[YARN]["yarn.acl.enable"] == "true"
    assert found["core-site.xml"]["ipc.x"] == "1"


def test_zookeeper_has_a_file_of_its_own() -> None:
    record = ClusterRecord.new(ClusterOptions(zookeeper=True))
    zookeeper = record.daemons["zk"]
    found = conf_files(record.options, LAYOUT, record.daemons, zookeeper)
    assert f"clientPort={zookeeper.ports['client']}" in found["zoo.cfg"].splitlines()
    assert "dataDir=/home/me/my clusters/one/data/zk" in found["zoo.cfg"].splitlines()


def test_the_record_comes_back(tmp_path: Path) -> None:
    record = ClusterRecord.new(
        ClusterOptions(
            ha=True, queues=(Queue("a", 100),), labels={"nm1": "x"}, properties={"k": "v"}
        )
    )
    record.write(tmp_path / "cluster.json")
    assert ClusterRecord.read(tmp_path / "cluster.json") == record
