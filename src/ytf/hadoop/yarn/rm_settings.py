"""Reads settings that a ResourceManager runs with, from the ``/conf`` page of its web server.

A client's own ``yarn-site.xml`` need not have what the ResourceManager has, and no
call of its protocols tells (``ConfServlet``).
"""

from __future__ import annotations

import asyncio
import json

from ytf.hadoop.conf import Address, Configuration, RmService, rm_addresses

_LIMIT = 64 * 1024
_TLS_ONLY = "HTTPS_ONLY"


async def read_rm_setting(conf: Configuration, name: str, timeout_s: float) -> str | None:
    """The value of a setting; None if it is not set, or if the page cannot be read.

    Only plain HTTP is tried: what is behind TLS or Kerberos stays unknown.
    """
    if (conf.get_trimmed("yarn.http.policy") or "").upper() == _TLS_ONLY:
        return None
    for address in rm_addresses(conf, RmService.WEB):
        try:
            status, body = await asyncio.wait_for(_get(address, f"/conf?name={name}"), timeout_s)
        except (OSError, asyncio.TimeoutError, ValueError):
            continue  # the other one of a pair may answer
        return _value(body) if status == 200 else None
    return None


async def _get(address: Address, path: str) -> tuple[int, bytes]:
    """Send a GET request; returns the status and the body. ``ValueError``: this is no HTTP."""
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=_LIMIT)
    try:
        # HTTP/1.0: the answer ends with the connection, and has no chunks.
        head = f"GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.read(_LIMIT)
        while more := await reader.read(_LIMIT - len(answer)):
            answer += more
    finally:
        writer.close()
    first, _, body = answer.partition(b"\r\n\r\n")
    version, status, *_ = first.split(None, 2)
    if not version.startswith(b"HTTP/"):
        raise ValueError("not HTTP")
    return int(status), body


def _value(body: bytes) -> str | None:
    try:
        value = json.loads(body)["property"]["value"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
