"""What an administrator does once on a new cluster: directories in HDFS, node labels."""

from __future__ import annotations

import getpass
from collections.abc import Sequence

from ytf.testing.hadoop import probes
from ytf.testing.hadoop.daemons import Daemon
from ytf.testing.hadoop.record import Record


def make_hdfs_directories(name_node: Daemon) -> None:
    """``/tmp`` for all, and the home directory of whoever runs the cluster."""
    user = getpass.getuser()
    for path, permission in (("/tmp", "1777"), ("/user", "755"), (f"/user/{user}", "700")):
        probes.make_directory(name_node, path, user, permission)


def give_labels(record: Record, rm: Daemon, running: Sequence[str]) -> None:
    """Make the labels known and give each node its own."""
    labels = record.options.labels
    user = f"?user.name={getpass.getuser()}"
    known = [{"name": label, "exclusivity": True} for label in sorted(set(labels.values()))]
    probes.request(rm, "POST", f"/ws/v1/cluster/add-node-labels{user}", {"nodeLabelInfo": known})
    # By the id that YARN has for it: it accepts any other, and labels nobody.
    ids = {int(node.rpartition(":")[2]): node for node in running}
    given = [
        {"nodeId": ids[record.ports[name]["rpc"]], "labels": [label]}
        for name, label in labels.items()
    ]
    probes.request(
        rm, "POST", f"/ws/v1/cluster/replace-node-to-labels{user}", {"nodeToLabels": given}
    )
