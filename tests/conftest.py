"""Property tests are judged by what they find, not by how busy the machine is."""

from __future__ import annotations

import contextlib
import os
import signal
import socket

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.cluster"]

settings.register_profile(
    "specs",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("specs")

# Whoever runs the tests may ignore some of these (nohup, or a shell's &), and every process
# that they start would, too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the process of each test that has Hadoop or trains, for ``--dist=loadgroup``."""
    for item in items:
        kinds = {mark.name for mark in item.iter_markers()}
        if kinds & {"tensorflow", "frameworks"}:
            item.add_marker(pytest.mark.xdist_group("training"))
        elif "yarn" in kinds:
            item.add_marker(pytest.mark.xdist_group("hadoop"))


@pytest.fixture
def free_range() -> tuple[int, int]:
    """Four ports in a row that nobody uses: below those that starters take by themselves."""
    while True:
        first = 10000 + int.from_bytes(os.urandom(4), "big") % 4900
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for number in range(first, first + 4):
                sock = stack.enter_context(socket.socket(socket.AF_INET6))
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                sock.bind(("::", number))
            return first, first + 3
