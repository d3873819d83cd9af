"""Settings of a ResourceManager, as its web server tells them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ytf.hadoop.conf import Configuration
from ytf.hadoop.confxml import Property
from ytf.hadoop.yarn.rm_settings import read_rm_setting

JSON = '{"property":{"key":"a.b","value":"7","isFinal":false,"resource":"yarn-site.xml"}}'


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
