"""Checks HDFS and the layer store for ``ytf doctor``."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from ytf.backends.checks import CheckFinding, compare_clocks, failed, note, ok
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.hdfs_layout import default_hdfs
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError, YtfError
from ytf.packaging.layer_store import LayerStore
from ytf.specs.amounts import format_bytes
from ytf.storage.files import Files

_SAMPLE = b"written by ytf doctor\n" * 100
_SCRATCH = "doctor-"
_KILLED_MS = 3_600_000
"""A scratch directory as old as this was left by a process that was killed."""
_STANDBY = "is standby"
_LEAVE_SAFE_MODE = (
    "wait until enough DataNodes have reported and the NameNode leaves safe mode; an administrator "
    "can see why it does not: hdfs dfsadmin -safemode get"
)
_SEE_DATA_NODES = (
    "see whether DataNodes run, and whether this machine reaches them: hdfs dfsadmin -report"
)
_NO_QUOTA = 1 << 63
"""A NameNode's -1, read without its sign."""
_LEAST_SHARE = 0.05
"""Of a quota: less than this is told."""


class HdfsChecks:
    """The checks of one HDFS. What an earlier check has found is kept for the later ones."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._skew_s: float | None = None

    def name_node(self) -> CheckFinding:
        """Call every NameNode of the default file system; one must be active."""
        url = default_hdfs(self._cluster.conf)
        nodes = self._name_nodes(url)
        with ThreadPoolExecutor(len(nodes)) as pool:
            roles = list(pool.map(self._role, nodes))
        told = [f"{urlsplit(node).netloc} {role}" for node, role in zip(nodes, roles, strict=True)]
        if None not in roles:
            return failed(
                "; ".join(told),
                "see whether the NameNode runs, and whether fs.defaultFS in "
                f"{self._cluster.directory / 'core-site.xml'} is right",
            )
        if len(nodes) == 1:
            return ok(f"{urlsplit(nodes[0]).netloc} answers ({url})")
        active = roles.index(None)
        others = [each for number, each in enumerate(told) if number != active]
        text = "; ".join([f"{urlsplit(nodes[active]).netloc} is active ({url})", *others])
        if all(role in (None, _STANDBY) for role in roles):
            return ok(text)
        return note(text, "start it again: if the active one fails, there is no other")

    def _name_nodes(self, url: str) -> list[str]:
        """The URL of each NameNode: of one, or of those of a nameservice."""
        conf = self._cluster.conf
        service = urlsplit(url).netloc
        ids = conf.get_list(f"dfs.ha.namenodes.{service}")
        addresses = [conf.get_text(f"dfs.namenode.rpc-address.{service}.{id_}") for id_ in ids]
        return [f"hdfs://{address}" for address in addresses] or [url]

    def _role(self, url: str) -> str | None:
        """None for the active one, else what is to be said of it."""
        client = self._cluster.hdfs_client(url)
        try:
            client.call("look at /", lambda native: native.get_file_info("/"), changes=False)
        except (UnreachableError, OutcomeUnknownError) as error:
            if "StandbyException" in str(error.__cause__):
                return _STANDBY
            why = str(error).removeprefix(f"cannot look at / at {client.authority}: ")
            return f"does not answer: {why}"
        return None

    def home(self) -> CheckFinding:
        """Look whose the home directory is, and what its quota leaves."""
        files, user = self._cluster.files, self._cluster.user
        path = self._cluster.home.root.rpartition("/")[0]
        try:
            found = files.stat(path)
        except FileNotFoundError:
            return note(
                f"{path} does not exist; a job makes it, if you may",
                f"if you may not: hdfs dfs -mkdir -p {path}; hdfs dfs -chown {user} {path}, by an "
                "administrator",
            )
        if found.owner != user:
            return failed(
                f"{path} belongs to {found.owner}, and you are {user}",
                f"let an administrator give it to you: hdfs dfs -chown {user} {path}",
            )
        return self._quota(path)

    def _quota(self, path: str) -> CheckFinding:
        # By a client of its own: for the next calls of one that got no answer HDFS has less time.
        client = self._cluster.hdfs_client(default_hdfs(self._cluster.conf))
        try:
            summary = client.call(
                f"read the quota of {path}",
                lambda native: native.get_content_summary(path),
                changes=False,
            )
        except (UnreachableError, RefusedError):
            # The NameNode counts all files for it: too many of them take too long.
            return ok(f"{path} is yours; its quota is not known")
        left = []
        is_short = False
        if 0 < summary.space_quota < _NO_QUOTA:
            free = summary.space_quota - summary.space_consumed
            left.append(f"{format_bytes(max(0, free))} of {format_bytes(summary.space_quota)}")
            is_short |= free < _LEAST_SHARE * summary.space_quota
        if 0 < summary.quota < _NO_QUOTA:
            free = summary.quota - summary.file_count - summary.directory_count
            left.append(f"{max(0, free)} of {summary.quota} files")
            is_short |= free < _LEAST_SHARE * summary.quota
        text = f"{path} is yours; quota: {', '.join(left) + ' left' if left else 'none'}"
        if is_short:
            return note(text, "remove files, or ask an administrator for a higher quota")
        return ok(text)

    def files(self) -> CheckFinding:
        """Write, read and delete a file."""
        try:
            return self._use_files()
        except (UnreachableError, OutcomeUnknownError) as error:
            is_safe = "safe mode" in str(error)
            return failed(str(error), _LEAVE_SAFE_MODE if is_safe else _SEE_DATA_NODES)

    def _use_files(self) -> CheckFinding:
        files = self._cluster.files
        with scratch_directory(files, self._cluster.home.root) as folder:
            path = f"{folder}/sample"
            began, before = time.monotonic(), time.time()
            written = files.write(path, [_SAMPLE])
            after = time.time()
            read = b"".join(files.read(path))
            files.delete(path)
            took = time.monotonic() - began
            if read != _SAMPLE:
                return failed(
                    f"{files.uri(path)} was not read as it was written",
                    "check the DataNodes: hdfs fsck /",
                )
        self._skew_s = written.mtime_ms / 1000 - (before + after) / 2
        return ok(f"wrote, read and deleted a file below {self._cluster.home.root} in {took:.1f} s")

    def clock(self) -> CheckFinding:
        """Compare this machine's clock with the NameNode's."""
        if self._skew_s is None:
            return note("is not known")
        return compare_clocks(self._skew_s, "time of the file just written")

    def layers(self) -> CheckFinding:
        """Look whether the layer store can be trusted, and what is in it."""
        cluster = self._cluster
        root = cluster.home.layers
        try:
            cluster.files.stat(root)
        except FileNotFoundError:
            return ok(f"{root} does not exist yet: the first job uploads what nodes need")
        usage = LayerStore(cluster.files, root, cluster.user).usage()
        layers = "1 layer" if usage.layers == 1 else f"{usage.layers} layers"
        access = "nodes share them among users" if usage.is_public else "for your jobs only"
        return ok(f"{layers}, {format_bytes(usage.size)}, in {root} ({access})")


@contextmanager
def scratch_directory(files: Files, root: str) -> Iterator[str]:
    """Yield a new directory below ``root``, and remove it, and those of processes that were killed.

    ``root`` itself stays, for jobs.
    """
    folder = f"{root}/{_SCRATCH}{secrets.token_hex(8)}"
    try:
        files.stat(root)
    except FileNotFoundError:
        # Others may pass to the layers that will be below it: as the first job makes it.
        files.mkdir(root, 0o755)
    try:
        files.mkdir(folder)
        yield folder
    finally:
        with suppress(YtfError, OSError):
            _remove_scratch(files, root, folder)


def _remove_scratch(files: Files, root: str, folder: str) -> None:
    now_ms = files.stat(folder).mtime_ms
    files.delete(folder)
    for found in files.list(root):
        if found.name.startswith(_SCRATCH) and now_ms - found.mtime_ms > _KILLED_MS:
            files.delete(found.path)
