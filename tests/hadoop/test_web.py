"""Pages of Hadoop's web servers: their JSON, the time of the server, a daemon's settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ytf.hadoop.conf import Address, Configuration
from ytf.hadoop.confxml import Property
from ytf.hadoop.web import WebPage, get_page, read_rm_setting, read_setting

JSON = '{"property":{"key":"a.b","value":"7","isFinal":false,"resource":"yarn-site.xml"}}'


async def answered(answer: bytes, *, setting: bool = False) -> WebPage | str | None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        if setting:
            return await read_setting(address, "a.b", 10.0)
        return await get_page(address, "/x", 10.0)


async def test_the_time_of_the_server_and_a_value() -> None:
    page = await answered(
        b'HTTP/1.1 200 OK\r\ndate: Tue, 17 Nov 2026 10:58:56 GMT\r\n\r\n{"a": {"b": "c", "n": 1}}'
    )
    assert isinstance(page, WebPage)
    assert (page.status, page.date) == (200, 1794913136.0)
    assert page.value("a", "b") == "c"
    assert page.value("a", "x") is page.value("a", "n") is page.value("a", "b", "c") is None


@pytest.mark.parametrize("date", [b"", b"Date: yesterday\r\n", b"Date: 99999999999999\r\n"])
async def test_a_server_that_tells_no_time(date: bytes) -> None:
    page = await answered(b"HTTP/1.1 200 OK\r\n" + date + b"\r\nno JSON")
    assert isinstance(page, WebPage)
    assert page.date is None
    assert page.value("a") is None


async def test_what_is_no_http_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        await answered(b"")
    with pytest.raises(ValueError, match="not HTTP"):
        await answered(b"SSH-2.0-OpenSSH x\r\n")


async def test_a_setting_of_a_daemon() -> None:
    body = b'{"property": {"key": "a.b", "value": "true"}}'
    assert await answered(b"HTTP/1.1 200 OK\r\n\r\n" + body, setting=True) == "true"
    assert await answered(b"HTTP/1.1 404 Not Found\r\n\r\n" + body, setting=True) is None


def pair(*addresses: str) -> Configuration:
    """A configuration with ResourceManagers at these web addresses."""
    values = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": ",".join(f"rm{n}" for n in range(len(addresses))),
    }
    for number, address in enumerate(addresses):
        values[f"yarn.resourcemanager.webapp.address.rm{number}"] = address
    file = Path("yarn-site.xml")
    return Configuration(
        [Property(name=k, value=v, final=False, file=file, line=1) for k, v in values.items()]
    )


async def ask(answer: bytes, timeout_s: float = 10.0) -> tuple[str | None, str]:
    """What is read of a server's answer, and the request; the first of the pair is away."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await read_rm_setting(pair("127.0.0.1:9", f"127.0.0.1:{port}"), "a.b", timeout_s)
    return found, asked[0]


async def test_a_setting_is_read_from_the_one_that_is_there() -> None:
    found, asked = await ask(f"HTTP/1.1 200 OK\r\nX: y\r\n\r\n{JSON}".encode())
    assert found == "7"
    assert asked.startswith("GET /conf?name=a.b HTTP/1.0\r\n")
    assert "Accept: application/json\r\n" in asked


async def test_a_pair_whose_web_addresses_nobody_configured_tells_nothing() -> None:
    values = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
        "yarn.resourcemanager.address.rm1": "127.0.0.1:9",
        "yarn.resourcemanager.address.rm2": "127.0.0.1:9",
    }
    assert await read_rm_setting(Configuration.of(values), "a.b", 1.0) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 404 Property a.b not found\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<configuration/>",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 60_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000,
        b'HTTP/1.1 200 OK\r\n\r\n{"property":{"value":7}}',
        b"HTTP/1.1 " + b"9" * 5000 + b"\r\n\r\n",
    ],
)
async def test_any_other_answer_is_none(answer: bytes) -> None:
    found, _ = await ask(answer)
    assert found is None
