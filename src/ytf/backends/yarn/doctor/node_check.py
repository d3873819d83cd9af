"""Uses HDFS from a node, and looks at its disk and clock: the program of ``ytf doctor``'s job.

``python -m ytf.backends.yarn.doctor.node_check URL`` runs in a task's container, on ytf's
runtime. It writes a :class:`NodeFacts` as the file ``URL``, reads it again, and exits with 0. If
anything fails it says so on stderr, which becomes a part of the job's diagnostics.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Sequence

import msgspec

from ytf.errors import YtfError
from ytf.hadoop.conf import Configuration
from ytf.storage.container_conf import container_configuration
from ytf.storage.hdfs import HdfsFiles, path_of
from ytf.storage.hdfs_client import HdfsClient

_ANSWER_S = 20.0


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the program found; times are seconds since 1970 by the node's clock."""

    host: str
    at: float
    disk_free: int
    """Bytes that are free in the container's directory."""


def main(argv: Sequence[str]) -> int:
    """Return the exit code: 0 if HDFS can be used from here."""
    (url,) = argv
    try:
        use_hdfs(url, container_configuration(os.environ))
    except (YtfError, OSError) as exc:
        print(f"HDFS cannot be used from this node: {exc}", file=sys.stderr, flush=True)
        return 1
    return 0


def use_hdfs(url: str, conf: Configuration) -> None:
    """Write the facts to a file that does not exist yet, and read them again."""
    files = HdfsFiles(HdfsClient(url, conf, timeout_s=_ANSWER_S, answer_s=_ANSWER_S))
    disk = os.statvfs(".")
    facts = NodeFacts(
        host=socket.gethostname(), at=time.time(), disk_free=disk.f_bavail * disk.f_frsize
    )
    encoded = msgspec.json.encode(facts)
    path = path_of(url)
    files.write(path, [encoded])
    if b"".join(files.read(path)) != encoded:
        raise OSError(f"{url} was not read as it was written")


if __name__ == "__main__":
    # Skips the interpreter's shutdown because of hdfs-native: see ytf.cli.entry.
    os._exit(main(sys.argv[1:]))
