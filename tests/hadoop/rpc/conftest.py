"""A fake server with one method, for tests of connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.hadoop.rpc.echo import answer
from tests.hadoop.rpc.server import RpcServer


@pytest.fixture
async def server() -> AsyncIterator[RpcServer]:
    """Answers every call with the number it was asked with."""
    async with RpcServer({"echo": answer}) as running:
        yield running
