"""Reads settings that a ResourceManager runs with, from the ``/conf`` page of its web server.

A client's own ``yarn-site.xml`` need not have what the ResourceManager has, and no
call of its protocols tells (``ConfServlet``).
"""

from __future__ import annotations

import asyncio

from ytf.hadoop.conf import Configuration, RmService, rm_addresses
from ytf.hadoop.web import read_setting

_TLS_ONLY = "HTTPS_ONLY"


async def read_rm_setting(conf: Configuration, name: str, timeout_s: float) -> str | None:
    """The value of a setting; None if it is not set, or if the page cannot be read.

    Only plain HTTP is tried: what is behind TLS or Kerberos stays unknown.
    """
    if not serves_plain_http(conf):
        return None
    for address in rm_addresses(conf, RmService.WEB):
        try:
            value = await read_setting(address, name, timeout_s)
        except (OSError, asyncio.TimeoutError, ValueError):
            continue  # the other one of a pair may answer
        return value
    return None


def serves_plain_http(conf: Configuration) -> bool:
    """Whether YARN's web servers answer without TLS."""
    return (conf.get_trimmed("yarn.http.policy") or "").upper() != _TLS_ONLY
