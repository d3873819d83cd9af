"""Reads pages of the web servers of Hadoop's daemons, over plain HTTP."""

from __future__ import annotations

import asyncio
import email.utils
import json

import msgspec
from async_timeout import timeout

from ytf.errors import SettingsError
from ytf.hadoop.conf import Address, Configuration, RmService, rm_addresses

_LIMIT = 64 * 1024
_TLS_ONLY = "HTTPS_ONLY"


class WebPage(msgspec.Struct, frozen=True, kw_only=True):
    """An answer: its status, its body (cut off at 64 KiB), and the server's time in seconds."""

    status: int
    body: bytes
    date: float | None
    """From the ``Date`` header, in whole seconds; None if there is none."""

    def value(self, *keys: str) -> str | None:
        """The text below these keys of the JSON in the body; None if there is none."""
        try:
            found = json.loads(self.body)
            for key in keys:
                found = found[key]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return found if isinstance(found, str) else None


async def get_page(address: Address, path: str, timeout_s: float) -> WebPage:
    """Send a GET request that asks for JSON, and return the answer.

    Raises ``OSError`` or ``asyncio.TimeoutError`` if none comes, and ``ValueError`` if what
    comes is not HTTP.
    """
    async with timeout(timeout_s):
        return await _get(address, path)


async def read_setting(address: Address, name: str, timeout_s: float) -> str | None:
    """The value of a setting that a daemon runs with, from its ``/conf`` page (``ConfServlet``).

    None if it is not set. Raises as :func:`get_page`.
    """
    page = await get_page(address, f"/conf?name={name}", timeout_s)
    return page.value("property", "value") if page.status == 200 else None


async def read_rm_setting(conf: Configuration, name: str, timeout_s: float) -> str | None:
    """The value of a setting that the ResourceManager runs with; None if it cannot be told.

    A client's own ``yarn-site.xml`` need not have what the ResourceManager has, and no
    call of its protocols tells.
    Only plain HTTP is tried: what is behind TLS or Kerberos stays unknown.
    """
    for address in rm_web_addresses(conf):
        try:
            value = await read_setting(address, name, timeout_s)
        except (OSError, asyncio.TimeoutError, ValueError):
            continue  # the other one of a pair may answer
        return value
    return None


def rm_web_addresses(conf: Configuration) -> list[Address]:
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


async def _get(address: Address, path: str) -> WebPage:
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
    return WebPage(status=int(status), body=body, date=_date(first))


def _date(head: bytes) -> float | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"date":
            try:
                return email.utils.parsedate_to_datetime(value.decode("latin-1")).timestamp()
            except (ValueError, OverflowError):
                return None
    return None
