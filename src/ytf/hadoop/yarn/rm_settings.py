"""Reads settings that a ResourceManager runs with, from the ``/conf`` page of its web server.

A client's own ``yarn-site.xml`` need not have what the ResourceManager has, and no
call of its protocols tells (``ConfServlet``).
"""

from __future__ import annotations

import asyncio

from ytf.errors import SettingsError
from ytf.hadoop.conf import Address, Configuration, RmService, rm_addresses
from ytf.hadoop.web import read_setting

_TLS_ONLY = "HTTPS_ONLY"


async def read_rm_setting(conf: Configuration, name: str, timeout_s: float) -> str | None:
    """The value of a setting; None if it is not set, or if the page cannot be read.

    Only plain HTTP is tried: what is behind TLS or Kerberos stays unknown.
    """
    for address in web_addresses(conf):
        try:
            value = await read_setting(address, name, timeout_s)
        except (OSError, asyncio.TimeoutError, ValueError):
            continue  # the other one of a pair may answer
        return value
    return None


def web_addresses(conf: Configuration) -> list[Address]:
    """Where the ResourceManagers serve plain HTTP; empty if they do not, or nothing tells where."""
    if not serves_plain_http(conf):
        return []
    try:
        return rm_addresses(conf, RmService.WEB)
    except SettingsError:
        return []


def serves_plain_http(conf: Configuration) -> bool:
    """Whether YARN's web servers answer without TLS."""
    return (conf.get_trimmed("yarn.http.policy") or "").upper() != _TLS_ONLY
