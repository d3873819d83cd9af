"""A starter whose masters are slow, sick, gone or new."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import closing
from pathlib import Path

from tests.starter.conftest import (
    SECRET,
    eventually,
    is_alive,
)
from tests.starter.fake_master import FakeMaster
from tests.starter.steps import FOREVER, Start, run_to
from ytf.master.announce import announce
from ytf.specs.names import ContainerId
from ytf.starter.auth import Signer
from ytf.starter.http import Channel


def test_a_signal_while_the_master_is_away(start: Start) -> None:
    starter = start("true", master="http://127.0.0.1:9")
    eventually(lambda: "trying again" in starter.log.read_text(), "its first try")
    starter.process.terminate()
    assert starter.wait() == 143


def test_a_master_that_is_not_ready_is_asked_again(master: FakeMaster, start: Start) -> None:
    master.down = True
    starter = start("true")
    eventually(lambda: "answered 503" in starter.log.read_text(), "the first try")
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
    eventually(lambda: "trying again" in starter.log.read_text(), "the loss")
    (starter.cwd / "go").write_text("now\n")  # it exits while there is no master
    eventually(lambda: "ended: exit code 6" in starter.log.read_text(), "the exit")
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
        closing(Channel(url, Signer(SECRET), "master/c1")) as control,
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
        closing(Channel(url, Signer(SECRET), "master/c1")) as control,
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
        known = [(ContainerId("gone"), "127.0.0.1:9"), (ContainerId("c7"), control)]
        asyncio.run(announce(known, second.url, 2, SECRET))
        second.wait_for(lambda: second.polls, "polls at the new master")
        second.order(stop=True)
        assert starter.wait() == 0


def test_an_orphan_gives_up(master: FakeMaster, start: Start) -> None:
    starter = start(FOREVER, orphan_s=1.0)
    run_to(master, starter)
    below = starter.processes()
    master.close()
    assert starter.wait() == 4
    assert not any(is_alive(pid) for pid in below)
    assert "no master was heard of" in starter.log.read_text()


def test_a_wrong_secret_is_not_a_master(master: FakeMaster, start: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"another secret")
    starter = start("true", orphan_s=0.5)
    assert starter.wait() == 4
    assert master.reports == []
    assert "refused our signature" in starter.log.read_text()
    assert "another secret" not in starter.log.read_text()
