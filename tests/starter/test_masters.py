"""A starter whose masters are slow, sick, gone or new."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from tests.starter.conftest import (
    is_alive,
)
from tests.starter.fake_master import SECRET, FakeMaster
from tests.starter.steps import FOREVER, Start, run_to
from ytf.master.starter_client import announce_master
from ytf.specs.ids import ContainerId
from ytf.testing.waiting import eventually
from ytf.wire.http_client import SignedChannel
from ytf.wire.signing import Signer


def test_a_signal_while_the_master_is_away(start: Start) -> None:
    starter = start("true", master="http://127.0.0.1:9")
    eventually(lambda: "trying again" in starter.log.read_text(), describe="its first try")
    starter.process.terminate()
    assert starter.wait() == 143


def test_a_master_that_is_not_ready_is_asked_again(master: FakeMaster, start: Start) -> None:
    master.down = True
    starter = start("true")
    eventually(lambda: "answered 503" in starter.log.read_text(), describe="the first try")
    master.down = False
    master.expect("register", 0)


def test_word_of_a_start_does_not_hold_up_word_of_the_end(master: FakeMaster, start: Start) -> None:
    master.unwritten = {"started"}
    start("exit 6")
    master.meet()
    assert master.expect("exited", 0)["exit_code"] == 6
    assert [report.kind for report in master.reports] == ["register", "exited"]


def test_a_new_master_is_found_through_the_file(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "master.json"
    path.write_text(json.dumps({"url": master.url, "attempt": 1}))
    starter = start("echo ready; read x < go; exit 6", master_file=str(path))
    os.mkfifo(starter.cwd / "go")
    run_to(master, starter)
    program = starter.processes()
    master.close()
    eventually(lambda: "trying again" in starter.log.read_text(), describe="the loss")
    (starter.cwd / "go").write_text("now\n")  # it exits while there is no master
    eventually(lambda: "ended: exit code 6" in starter.log.read_text(), describe="the exit")
    with closing(FakeMaster(SECRET)) as second:
        draft = tmp_path / "master.new"
        draft.write_text(json.dumps({"url": second.url, "attempt": 2}))
        draft.rename(path)
        exited = second.expect("exited", 0)
        assert exited["exit_code"] == 6
        second.wait_for(lambda: second.polls, "polls at the new master")
        assert [report.kind for report in second.reports] == ["exited"]
        second.order(stop=True)
        assert starter.wait() == 0
    assert not any(is_alive(pid) for pid in program)


def test_a_new_master_introduces_itself(master: FakeMaster, start: Start) -> None:
    starter = start(FOREVER)
    run_to(master, starter)
    below = starter.processes()
    url = "http://" + master.expect("register", 0)["control"]
    master.close()
    with (
        closing(FakeMaster(SECRET)) as second,
        closing(SignedChannel(url, Signer(SECRET), "master/c1")) as control,
    ):
        for new, attempt in [(second.url, 2), ("http://127.0.0.1:9", 1)]:  # the latter is late
            body = json.dumps({"url": new, "attempt": attempt}).encode()
            assert control.call("POST", "/control/v1/master", body).status == 200
        second.wait_for(lambda: second.polls, "polls at the new master")
        assert all(is_alive(pid) for pid in below[:2])
        second.order(stop=True)
        assert starter.wait() == 0


def test_a_master_that_hangs_is_left_for_the_one_that_introduces_itself(
    master: FakeMaster, start: Start
) -> None:
    starter = start("true")
    url = "http://" + master.expect("register", 0)["control"]
    master.wait_for(lambda: master.polls, "a poll")
    with (
        closing(FakeMaster(SECRET)) as second,
        closing(SignedChannel(url, Signer(SECRET), "master/c1")) as control,
    ):
        body = json.dumps({"url": second.url, "attempt": 2}).encode()
        assert control.call("POST", "/control/v1/master", body).status == 200
        second.wait_for(lambda: second.polls, "polls at the new master")
        second.order(stop=True)
        assert starter.wait() == 0


def test_our_own_master_introduces_itself_to_each_by_name(master: FakeMaster, start: Start) -> None:
    starter = start("true", container="c7")
    control = master.expect("register", 0)["control"]
    master.close()
    with closing(FakeMaster(SECRET)) as second:
        announce(second, {"gone": "127.0.0.1:9", "c7": control}, lost={"gone"})
        assert second.polls, "it returned before the starter was heard"
        second.order(stop=True)
        assert starter.wait() == 0


def test_a_starter_that_misses_the_first_calls_is_told_again(
    master: FakeMaster, start: Start
) -> None:
    starter = start(FOREVER)
    run_to(master, starter)
    control = master.expect("register", 0)["control"]
    master.close()
    with closing(FakeMaster(SECRET)) as second, closing(LossyProxy(control, drops=4)) as proxy:
        announce(second, {"c1": proxy.address})
        assert second.polls
        assert proxy.dropped == 4
        second.order(stop=True)
        assert starter.wait() == 0


def test_a_starter_that_is_lost_is_not_told_for_ever() -> None:
    with closing(LossyProxy("127.0.0.1:9", drops=1000)) as proxy:
        known = [(ContainerId("c1"), proxy.address)]
        done = announce_master(known, "http://h:1", 2, SECRET, lambda _: proxy.dropped < 3)
        asyncio.run(asyncio.wait_for(done, 30))
        assert proxy.dropped == 3


def announce(
    second: FakeMaster, starters: dict[str, str], lost: Collection[str] = frozenset()
) -> None:
    """Our own master tells starters that a fake one has taken over, until they poll there."""

    def is_awaited(container: ContainerId) -> bool:
        heard = {poll["container"] for poll in second.polls}
        return container not in heard and container not in lost

    known = [(ContainerId(name), control) for name, control in starters.items()]
    done = announce_master(known, second.url, 2, SECRET, is_awaited)
    asyncio.run(asyncio.wait_for(done, 30))


class LossyProxy:
    """Passes connections on to an address, except for the first ones, which it drops."""

    def __init__(self, target: str, drops: int) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._drops = drops
        self.dropped = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            caller, _ = self._listener.accept()
            with caller:
                if self._drops < 0:
                    return
                if self.dropped < self._drops:
                    self.dropped += 1
                    continue
                with socket.create_connection(self._target) as callee:
                    callee.sendall(caller.recv(65536))
                    caller.sendall(callee.recv(65536))

    def close(self) -> None:
        self._drops = -1
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()


def test_a_starter_without_a_master_gives_up(master: FakeMaster, start: Start) -> None:
    starter = start(FOREVER, master_silence_s=1.0)
    run_to(master, starter)
    below = starter.processes()
    master.close()
    assert starter.wait() == 4
    assert not any(is_alive(pid) for pid in below)
    assert "no master has answered" in starter.log.read_text()


def test_a_wrong_secret_is_not_a_master(master: FakeMaster, start: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"another secret")
    # Long enough for one answer of the master on a busy machine.
    starter = start("true", master_silence_s=5.0)
    assert starter.wait() == 4
    assert master.reports == []
    assert "refused our signature" in starter.log.read_text()
    assert "another secret" not in starter.log.read_text()
