"""Pages of Hadoop's web servers: their JSON, and the time of the server."""

from __future__ import annotations

import asyncio

import pytest

from ytf.hadoop.conf import Address
from ytf.hadoop.web import WebPage, get_page, read_setting


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
