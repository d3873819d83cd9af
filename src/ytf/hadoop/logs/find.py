"""Where the cluster keeps an application's aggregated logs.

The path has changed over the years. Mirrors ``LogAggregationUtils``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ytf.errors import NotFoundError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.logs.errors import LogFormatError
from ytf.hadoop.logs.source import ByteSource

_BUCKETS = 10_000
_APPLICATION = re.compile(r"application_\d+_(\d+)")
_NODE_FILE = re.compile(r"(?P<host>.+)_(?P<port>\d{1,5})(?:_\d{10,})?")


class LogTree(Protocol):
    """The file system that logs are aggregated in. Failures are ``OSError``."""

    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted, or ``FileNotFoundError``."""
        ...

    def source(self, path: str) -> ByteSource:
        """A file's bytes."""
        ...


@dataclass(frozen=True, slots=True)
class AggregatedFile:
    """What one node has aggregated; a node that uploads while running has several."""

    node: str
    path: str


def find_aggregated(
    tree: LogTree, conf: Configuration, user: str, application: str
) -> list[AggregatedFile]:
    """The aggregated files of an application, by node and in the order of their writing.

    Raises ``NotFoundError`` if there are none (yet: a node uploads its logs
    some seconds after the application's end) and ``LogFormatError`` if they are
    kept as indexed files, which we do not read.
    """
    for directory in _directories(conf, user, application, "TFile"):
        names = _names(tree, directory)
        if names:
            return list(_node_files(directory, names))
    for directory in _directories(conf, user, application, "IFile"):
        if _names(tree, directory):
            raise LogFormatError(
                f"the logs of {application} are kept as indexed files ({directory}), "
                "which ytf does not read",
                hint=f"yarn logs -applicationId {application}",
            )
    raise NotFoundError(
        f"there are no aggregated logs of {application} of user {user} below {_root(conf)}",
        hint="nodes upload them some seconds after the end, if yarn.log-aggregation-enable is true",
    )


def _root(conf: Configuration) -> str:
    # A URL is possible, too: the tree is then of that file system.
    root = conf.get_trimmed("yarn.nodemanager.remote-app-log-dir") or "/tmp/logs"
    return re.sub(r"^[a-z0-9]+://[^/]*", "", root).rstrip("/")


def _directories(
    conf: Configuration, user: str, application: str, controller: str
) -> Iterator[str]:
    found = _APPLICATION.fullmatch(application)
    if found is None:
        raise NotFoundError(f"{application!r} is not the id of a YARN application")
    bucket = int(found[1]) % _BUCKETS
    home = f"{_root(conf)}/{user}"
    plain = conf.get_trimmed("yarn.nodemanager.remote-app-log-dir-suffix") or "logs"
    suffix = conf.get_trimmed(f"yarn.log-aggregation.{controller}.remote-app-log-dir-suffix")
    suffix = suffix or f"{plain}-{controller.lower()}"
    yield f"{home}/bucket-{suffix}/{bucket:04d}/{application}"  # 3.3 and later
    yield f"{home}/{suffix}/{application}"  # 3.1 and 3.2, with a controller named
    if controller == "TFile":
        yield f"{home}/{plain}/{application}"  # 2.x


def _names(tree: LogTree, directory: str) -> list[str]:
    try:
        # A file that is being written ends so; a log directory of old may have others.
        return [n for n in tree.names(directory) if not n.startswith(".") and n[-4:] != ".tmp"]
    except FileNotFoundError:
        return []


def _node_files(directory: str, names: list[str]) -> Iterator[AggregatedFile]:
    for name in names:
        found = _NODE_FILE.fullmatch(name)
        node = f"{found['host']}:{found['port']}" if found else name
        yield AggregatedFile(node=node, path=f"{directory}/{name}")
