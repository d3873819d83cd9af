"""A ResourceManager that is dead, hung or slow is reported in time, with its address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ytf.backends.yarn import rm_client
from ytf.backends.yarn.rm_client import RmClient
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.rpc.client import RetryPolicy
from ytf.hadoop.yarn.application_client import ApplicationClient
from ytf.minicluster.configuration import to_xml
from ytf.storage import hdfs_client

ADDRESS = "yarn.resourcemanager.address"
SOON = {"ipc.client.rpc-timeout.ms": "300"}
COMMANDS = {
    "status": ("ytf", "status", "application_1700000000000_0001"),
    "list": ("ytf", "list", "--backend", "yarn"),
    "kill": ("ytf", "kill", "application_1700000000000_0001"),
    "submit": ("ytf-submit", "--backend", "yarn", "-r", "worker:1", "true"),
}


@pytest.fixture
def hung() -> Iterator[str]:
    """The address of who takes connections and never says a word: the kernel does it for us."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def dead() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"127.0.0.1:{gone.getsockname()[1]}"


async def metrics(rm: ApplicationClient) -> object:
    return await rm.metrics()


def rm_of(values: dict[str, str]) -> RmClient:
    return RmClient(Configuration.of(SOON | values, environ={}), "alice")


def test_nobody_listens(dead: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        rm_of({ADDRESS: dead}).call(metrics)
    assert str(caught.value) == (
        f"cannot connect to the ResourceManager at {dead}: Connection refused"
    )
    assert ADDRESS in (caught.value.hint or "")


def test_nobody_answers(hung: str) -> None:
    with pytest.raises(OutcomeUnknownError) as caught:
        rm_of({ADDRESS: hung}).call(metrics)
    assert str(caught.value) == (
        f"getClusterMetrics was sent to the ResourceManager at {hung}, and no answer came"
        " within 0.3 s"
    )


def test_a_cluster_that_would_have_us_wait_for_minutes_does_not(
    hung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rm_client, "ANSWER_S", 0.2)
    with pytest.raises(OutcomeUnknownError, match=r"within 0\.2 s"):
        rm_of({ADDRESS: hung, "ipc.client.rpc-timeout.ms": "120000"}).call(metrics)


def test_a_pair_shares_the_time(hung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rm_client, "ANSWER_S", 0.4)
    monkeypatch.setattr(
        rm_client, "_FAILOVER", RetryPolicy(total_s=600.0, pause_s=0.1, silence_s=0.4)
    )
    pair = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "a,b",
        f"{ADDRESS}.a": hung,
        f"{ADDRESS}.b": hung,
    }
    with pytest.raises(OutcomeUnknownError, match=r"within 0\.2 s"):
        rm_of(pair).call(metrics)


def test_a_command_that_is_typed_has_an_answer_within_15_s() -> None:
    # With what it takes to start a command, and one more second at HDFS.
    assert rm_client.ANSWER_S <= 12
    assert hdfs_client.COMMAND_ANSWER_S <= 12
    assert rm_client._FAILOVER.silence_s == rm_client.ANSWER_S


def test_each_of_a_pair_is_told_of(dead: str, hung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rm_client, "_FAILOVER", RetryPolicy(total_s=0.0))
    pair = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "a,b",
        f"{ADDRESS}.a": dead,
        f"{ADDRESS}.b": hung,
    }
    with pytest.raises(OutcomeUnknownError) as caught:
        rm_of(pair).call(metrics)
    assert f"cannot connect to the ResourceManager at {dead}" in str(caught.value)
    assert f"sent to the ResourceManager at {hung}" in str(caught.value)


def test_every_command_ends_with_an_address_and_what_to_do(
    dead: str, hung: str, tmp_path: Path
) -> None:
    with ExitStack() as running:
        started = []
        for place in (dead, hung):
            conf = tmp_path / place
            conf.mkdir()
            hdfs = {"fs.defaultFS": f"hdfs://{dead}"}
            (conf / "core-site.xml").write_text(to_xml(SOON | hdfs))
            (conf / "yarn-site.xml").write_text(to_xml({ADDRESS: place}))
            for words in COMMANDS.values():
                process = running.enter_context(_start(words, conf, tmp_path))
                running.callback(process.kill)
                started.append((words, place, process))
        deadline = time.monotonic() + 60
        for words, place, process in started:
            _, said = process.communicate(timeout=deadline - time.monotonic())
            assert process.returncode == 1, (words, said)
            assert f"the ResourceManager at {place}" in said, (words, said)
            assert f"{ADDRESS} (or .hostname) in {tmp_path / place}" in said, (words, said)
            assert "Traceback" not in said


def _start(words: tuple[str, ...], conf: Path, home: Path) -> subprocess.Popen[str]:
    program, *rest = words
    ours = ("YTF_", "HADOOP_", "YARN_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.Popen(
        [str(Path(sys.executable).with_name(program)), *rest],
        env=environ | {"HADOOP_CONF_DIR": str(conf), "YTF_HOME": str(home / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


INTERRUPTED = """
import gc, signal, sys
from ytf.backends.yarn.rm_client import RmClient
from ytf.hadoop.conf import Configuration

class Interrupted(BaseException):
    pass

def interrupt(number, frame):
    raise Interrupted

async def metrics(rm):
    return await rm.metrics()

signal.signal(signal.SIGALRM, interrupt)
rm = RmClient(Configuration.of({"yarn.resourcemanager.address": sys.argv[1]}, environ={}), "alice")
for number in range(1, 51):
    try:
        signal.setitimer(signal.ITIMER_REAL, number * 100e-6)
        rm.call(metrics)
    except Interrupted:
        gc.collect()
"""


def test_a_signal_at_any_moment_of_a_call_is_all_that_is_told(hung: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, hung], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
