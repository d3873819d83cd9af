"""Where a configuration says the cluster's services are, high availability included."""

from __future__ import annotations

from enum import Enum

from ytf.errors import SettingsError
from ytf.hadoop.address import Address, parse_address
from ytf.hadoop.conf import Configuration


class RmService(Enum):
    """What a ResourceManager listens for: the setting's name and the default port."""

    CLIENT = ("address", 8032)
    SCHEDULER = ("scheduler.address", 8030)
    ADMIN = ("admin.address", 8033)
    WEB = ("webapp.address", 8088)
    WEB_TLS = ("webapp.https.address", 8090)


def rm_ids(conf: Configuration) -> list[str]:
    """The names of the ResourceManagers of a highly available pair; none if there is but one."""
    if not conf.get_bool("yarn.resourcemanager.ha.enabled"):
        return []
    ids = conf.get_list("yarn.resourcemanager.ha.rm-ids")
    if not ids:
        raise SettingsError(
            "yarn.resourcemanager.ha.enabled is true, but yarn.resourcemanager.ha.rm-ids names none"
        )
    return ids


def rm_addresses(conf: Configuration, service: RmService) -> list[Address]:
    """Where the ResourceManager, or each of them, offers a service.

    As ``HAUtil`` does: ``<setting>.<id>``, else ``hostname.<id>`` and the
    default port. Raises ``SettingsError`` for what is not an address.
    """
    suffixes = [f".{rm}" for rm in rm_ids(conf)] or [""]
    return [_rm_address(conf, service, suffix) for suffix in suffixes]


def _rm_address(conf: Configuration, service: RmService, suffix: str) -> Address:
    setting, port = service.value
    name = f"yarn.resourcemanager.{setting}{suffix}"
    if conf.get_trimmed(name):
        return _address(conf, name, port)
    return _address(conf, f"yarn.resourcemanager.hostname{suffix}", port)


def nameservices(conf: Configuration) -> dict[str, list[Address]]:
    """The logical names of HDFS, each with its NameNodes' RPC addresses."""
    found: dict[str, list[Address]] = {}
    for service in conf.get_list("dfs.nameservices"):
        nodes = conf.get_list(f"dfs.ha.namenodes.{service}")
        suffixes = [f"{service}.{node}" for node in nodes] or [service]
        names = [f"dfs.namenode.rpc-address.{suffix}" for suffix in suffixes]
        found[service] = [_address(conf, name, 8020) for name in names]
    return found


def _address(conf: Configuration, name: str, port: int) -> Address:
    try:
        return parse_address(conf.get_text(name), port)
    except ValueError as exc:
        raise SettingsError(f"{name}: {exc}") from exc
