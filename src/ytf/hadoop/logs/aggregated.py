"""Finds and reads an application's aggregated logs in the cluster's file system.

There is one TFile for each node, with a record for each container. The key is
the container's id. The value is a list of name, length in decimal digits, and
bytes. Some records describe the file itself. Mirrors ``AggregatedLogFormat``
and, for the paths, ``LogAggregationUtils``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ytf.errors import NotFoundError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.logs.tfile import ByteSource, ByteStream, LogFormatError, TFileRecord, read_records

_ABOUT_THE_FILE = frozenset({"APPLICATION_ACL", "APPLICATION_OWNER", "VERSION"})
_LONGEST_NUMBER = 20
_BUCKETS = 10_000
_APPLICATION = re.compile(r"application_\d+_(\d+)")
_NODE_FILE = re.compile(r"(?P<host>.+)_(?P<port>\d{1,5})(?:_\d{10,})?")


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """A file of a container's log directory.

    ``pieces`` are its bytes. Take them before you take the next log.
    """

    container: str
    name: str
    size: int
    pieces: Iterator[bytes]


def read_container_logs(
    source: ByteSource, wanted: Callable[[str], bool] = lambda container: True
) -> Iterator[ContainerLog]:
    """The logs of the ``wanted`` containers in one aggregated file, in its order, streamed.

    Raises ``LogFormatError`` for a format that ytf does not read. Raises
    ``LogDamagedError`` when it reaches a corrupt place.
    """
    for record in read_records(source):
        key = ByteStream(source.name, iter([record.key]), len(record.key)).java_text()
        if key not in _ABOUT_THE_FILE and wanted(key):
            yield from _logs(source.name, key, record)


def _logs(name: str, container: str, record: TFileRecord) -> Iterator[ContainerLog]:
    # The length of a value is not known before its last chunk.
    value = ByteStream(name, record.value, sys.maxsize)
    while not value.ended():
        file = value.java_text()
        size = _decimal(value, value.java_text())
        pieces = _bytes(value, size)
        yield ContainerLog(container, file, size, pieces)
        for _ in pieces:
            pass


def _decimal(value: ByteStream, digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) < _LONGEST_NUMBER):
        raise value.damaged(f"{digits[:50]!r} is not the length of a log")
    return int(digits)


def _bytes(value: ByteStream, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = value.some(left)
        left -= len(piece)
        yield piece


class LogTree(Protocol):
    """The file system that logs are aggregated in. Failures are ``OSError``."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; raises ``FileNotFoundError``."""
        ...

    def source(self, path: str) -> ByteSource:
        """The bytes of a file."""
        ...


@dataclass(frozen=True, slots=True)
class AggregatedFile:
    """An aggregated log file of one node. A node that also uploads while it runs has several."""

    node: str
    path: str


def find_aggregated(
    tree: LogTree, conf: Configuration, user: str, application: str
) -> list[AggregatedFile]:
    """The aggregated files of an application, by node and in the order of writing.

    Raises ``NotFoundError`` if there are none: a node uploads its logs some
    seconds after the application's end. Raises ``LogFormatError`` if they are
    indexed files, which ytf does not read.
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
    # It may be a URL. The tree is then that of its file system.
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
        # A file that is still being written ends with .tmp.
        return [n for n in tree.names(directory) if not n.startswith(".") and n[-4:] != ".tmp"]
    except FileNotFoundError:
        return []


def _node_files(directory: str, names: list[str]) -> Iterator[AggregatedFile]:
    for name in names:
        found = _NODE_FILE.fullmatch(name)
        node = f"{found['host']}:{found['port']}" if found else name
        yield AggregatedFile(node=node, path=f"{directory}/{name}")
