"""What the master's composition root chooses by the spec."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from ytf.backends.api import MasterContext
from ytf.master.app import _LogHandler, choose_registry
from ytf.registry.rest import RestRegistry
from ytf.registry.zookeeper import ZooKeeperRegistry
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true", name="a/b")


def job(registry: str) -> MasterContext:
    """As much of a context as the choice of the registry needs."""
    about = SimpleNamespace(
        spec=msgspec.structs.replace(SPEC, registry=registry),
        attempt=1,
        info=SimpleNamespace(user="alice", id="local_1"),
        secret=b"secret",
    )
    return cast(MasterContext, about)


async def test_the_spec_chooses_the_registry() -> None:
    server = HttpServer(RequestVerifier(b"secret"))
    assert isinstance(choose_registry(job("rest"), server), RestRegistry)
    server = HttpServer(RequestVerifier(b"secret"))
    chosen = choose_registry(job("zk://127.0.0.1:1/a?root=/r"), server)
    assert isinstance(chosen, ZooKeeperRegistry)
    assert chosen._path == "/a/r/users/alice/a%2Fb/local_1"
    await chosen.close()


def test_a_master_loads_kazoo_only_for_zookeeper() -> None:
    code = "import sys, ytf.master.app; print([m for m in sys.modules if 'kazoo' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_libraries_log_is_limited_for_each_of_them(capfd: pytest.CaptureFixture[str]) -> None:
    handler = _LogHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    for name in ("asyncio", "ytf.web"):
        for _ in range(100):
            handler.emit(logging.LogRecord(name, logging.ERROR, "", 0, "oh", None, None))
    lines = capfd.readouterr().err.splitlines()
    assert sum("asyncio: oh" in line for line in lines) == 10
    assert sum("ytf.web: oh" in line for line in lines) == 10
