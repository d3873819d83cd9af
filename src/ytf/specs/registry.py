"""What ``registry`` of a job spec says: the master's REST API, or the address of a ZooKeeper.

The forms are ``rest``, ``zk`` (the quorum that Hadoop's configuration names) and
``zk://host:port,host:port/chroot?root=/registry``. A plan has the last form with
everything in it: masters and starters read no configuration of ZooKeeper's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from ytf.errors import SpecError, did_you_mean, shown

REST = "rest"
ZOOKEEPER = "zk"
KINDS = (REST, ZOOKEEPER)

DEFAULT_ROOT = "/registry"
"""Hadoop's own default (``hadoop.registry.zk.root``)."""
QUORUM_PROPERTY = "hadoop.registry.zk.quorum"
ROOT_PROPERTY = "hadoop.registry.zk.root"
DEFAULT_PORT = 2181

_SCHEME = "zk://"
_FORM = "write zk://host:port,host:port, zk (the quorum of Hadoop's configuration) or rest"
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_PATH = re.compile(r"(/[!-$&-.0-~]+)*")
"""Printable ASCII; a percent sign is for what ytf encodes itself."""
_HIGHEST_PORT = 65535


class ZooKeeperAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A ZooKeeper ensemble, and the znode in it below which registries are."""

    servers: tuple[str, ...]
    """``host:port`` of each server."""
    chroot: str = ""
    """The znode that is ``/`` for its users; empty: the real one."""
    root: str = DEFAULT_ROOT
    """The znode of all registries, below ``chroot``."""

    @property
    def hosts(self) -> str:
        """The address as clients of ZooKeeper take it."""
        return ",".join(self.servers) + self.chroot

    def __str__(self) -> str:
        more = "" if self.root == DEFAULT_ROOT else f"?root={self.root}"
        return f"{_SCHEME}{self.hosts}{more}"


def kind_of(registry: str) -> str:
    """``rest`` or ``zk``, for a registry that :func:`check_registry` accepts."""
    return REST if registry == REST else ZOOKEEPER


def check_registry(registry: str, *, where: str | None = "registry") -> None:
    """Raise ``SpecError`` unless a registry has one of the three forms."""
    if registry not in KINDS:
        parse_address(registry, where=where)


def parse_address(registry: str, *, where: str | None = "registry") -> ZooKeeperAddress:
    """The address in ``zk://…``; raises ``SpecError`` if it is none."""
    if not registry.startswith(_SCHEME):
        raise SpecError(
            f"there is no registry {shown(registry)}",
            where=where,
            hint=did_you_mean(registry, KINDS, otherwise=_FORM),
        )
    rest, question, query = registry.removeprefix(_SCHEME).partition("?")
    root = DEFAULT_ROOT
    if question:
        name, _, root = query.partition("=")
        if name != "root":
            raise SpecError(
                f"an address of ZooKeeper has no {shown(name)}",
                where=where,
                hint="after the question mark comes root=/path, or nothing",
            )
    return _address(rest, root, where)


def resolve(registry: str, setting: Callable[[str], str | None]) -> str:
    """The registry with everything in it that configurations say.

    ``setting`` returns a property of Hadoop's configuration. Raises ``SpecError``
    if ``zk`` is asked for and no configuration names a quorum.
    """
    if registry == REST:
        return registry
    root = setting(ROOT_PROPERTY) or DEFAULT_ROOT
    if registry != ZOOKEEPER:
        given = parse_address(registry)
        return str(given) if "?" in registry else str(msgspec.structs.replace(given, root=root))
    quorum = setting(QUORUM_PROPERTY)
    if not quorum:
        raise SpecError(
            f"no ZooKeeper is named, and {QUORUM_PROPERTY} is not set",
            where="registry",
            hint="give its address: --registry zk://host:port,host:port",
        )
    return str(_address(quorum, root, QUORUM_PROPERTY))


def _address(hosts: str, root: str, where: str | None) -> ZooKeeperAddress:
    names, slash, path = hosts.partition("/")
    servers = tuple(_server(name.strip(), where) for name in names.split(","))
    chroot = (slash + path).rstrip("/")
    for part in (chroot, root := root.rstrip("/")):
        _check_path(part, where)
    return ZooKeeperAddress(servers=servers, chroot=chroot, root=root)


def _server(name: str, where: str | None) -> str:
    found = _SERVER.fullmatch(name)
    port = int(found.group(2) or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _HIGHEST_PORT:
        raise SpecError(
            f"{shown(name)} is not the address of a ZooKeeper server", where=where, hint=_FORM
        )
    return f"{found.group(1)}:{port}"


def _check_path(path: str, where: str | None) -> None:
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise SpecError(
            f"{shown(path)} is not a path in ZooKeeper",
            where=where,
            hint="it begins with a slash, as /registry does, and has no spaces",
        )


def instance_path(zookeeper: ZooKeeperAddress, *, user: str, name: str, job: str) -> str:
    """The znode of a job, below which its components are. The chroot is a part of it."""
    home = f"{zookeeper.chroot}{zookeeper.root}/users/{encode_name(user)}"
    return f"{home}/{encode_name(name)}/{encode_name(job)}"


def encode_name(name: str) -> str:
    """One element of a path in ZooKeeper for a name that may have any characters.

    Characters stay as they are, letters of all scripts and spaces too. Those
    that ZooKeeper does not take (``PathUtils.validatePath``), the slash and the
    percent sign are written as in URLs: ``%2F``. So are the dots of ``.`` and ``..``.
    """
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return "".join(char if _is_plain(char) else _percent(char) for char in name)


def _is_plain(char: str) -> bool:
    # Java sees characters beyond 0xFFFF as two surrogates, which ZooKeeper does not take.
    return char not in "/%" and (
        "\x20" <= char < "\x7f" or "\xa0" <= char < "\ud800" or "\uf900" <= char < "\ufff0"
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
