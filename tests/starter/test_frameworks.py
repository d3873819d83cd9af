"""A whole starter with a program of several processes, and with a rendezvous to serve."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from tests.starter.fake_master import FakeMaster
from tests.starter.steps import FOREVER, Start, run_to

RANKED = [["worker", 2]]


def test_two_processes_are_one_program(master: FakeMaster, start: Start) -> None:
    starter = start(
        'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT $YTF_RANK $YTF_HOSTS"; '
        'cat "$YTF_HOSTFILE"; echo "$GLOO_SOCKET_IFNAME $TP_SOCKET_IFNAME"; '
        "[ $LOCAL_RANK = 0 ] || { echo broken >&2; exit 3; }",
        framework="pytorch",
        port="release",
        processes=2,
        ranked=RANKED,
        environ={"TP_SOCKET_IFNAME": "of-the-user"},
    )
    address = master.meet()
    exited = master.expect("exited", 0)
    assert (exited["exit_code"], exited["signal"]) == (3, None)
    told = "ytf: rank 1 (process 1 of the task's 2) failed first, with exit code 3"
    assert exited["tail"].splitlines() == [
        "[1] broken",
        f"{told}; its last lines were:",
        "broken",
    ]
    lines = starter.output().splitlines()
    assert f"[1] 1/2 1 {address} 1 {address}" in lines
    assert "[1] 127.0.0.1 slots=2" in lines
    assert "[1] lo of-the-user" in lines
    master.order(stop=True)
    assert starter.wait() == 0
    assert list(starter.cwd.iterdir()) == []


def test_a_program_that_starts_its_processes_itself_is_started_once(
    master: FakeMaster, start: Start
) -> None:
    starter = start(
        'echo "$PET_NPROC_PER_NODE $YTF_LOCAL_SIZE"',
        framework="torchrun",
        port="release",
        processes=2,
        ranked=RANKED,
    )
    master.meet()
    assert master.expect("exited", 0)["exit_code"] == 0
    assert starter.output() == "2 2\n"


def test_the_first_task_serves_the_rendezvous_before_it_registers(
    master: FakeMaster, start: Start
) -> None:
    starter = start(
        f'echo "$HOROVOD_GLOO_RENDEZVOUS_ADDR:$HOROVOD_GLOO_RENDEZVOUS_PORT"; {FOREVER}',
        framework="horovod",
        port="serve_horovod",
        ranked=[["worker", 1]],
    )
    first = master.expect("register", 0)["port"]
    put(first, b"an address")
    assert get(first) == b"an address"
    run_to(master, starter)
    assert f"127.0.0.1:{first}" in starter.output()
    assert get(first) == b"an address"

    master.order(attempt=1, generation=1)
    second = master.expect("register", 1)["port"]
    # A process of the first run cannot put its address among those of the second.
    assert second != first
    assert get(second) is None
    with pytest.raises(urllib.error.URLError, match="refused"):
        get(first)
    master.order(attempt=1, generation=1, stop=True)
    assert starter.wait() == 0


def put(port: int, value: bytes) -> None:
    url = f"http://127.0.0.1:{port}/global/0"
    with urllib.request.urlopen(urllib.request.Request(url, value, method="PUT"), timeout=60):
        pass


def get(port: int) -> bytes | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/global/0", timeout=60) as answer:
            found: bytes = answer.read()
            return found
    except urllib.error.HTTPError as exc:
        exc.close()
        if exc.code != 404:
            raise
        return None
