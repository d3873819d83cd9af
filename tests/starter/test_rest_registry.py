from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.starter.fake_master import SECRET, FakeMaster
from ytf.starter import rest_registry
from ytf.starter.desired_state import CANNOT_BEGIN, REVOKED, ShutdownError
from ytf.starter.master_locator import MasterLocator
from ytf.starter.rest_registry import MasterCaller
from ytf.testing.waiting import eventually
from ytf.wire.signing import Signer

POLL = {"task": "worker:0", "attempt": 0, "container": "c1", "order": 0, "revision": 0}
ORDER = {"number": 1, "attempt": 0, "generation": 0, "stop": False, "grace_s": 10}


def poll(caller: MasterCaller) -> int:
    """Poll once; returns the number of the order."""
    return caller.post("/starter/v1/poll", POLL, lambda value: int(value["order"]["number"]))


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_registry, "LONGEST_WAIT_S", 0.05)


@pytest.fixture
def make_caller() -> Iterator[Callable[..., MasterCaller]]:
    callers: list[MasterCaller] = []

    def make(locator: MasterLocator, secret: bytes = SECRET) -> MasterCaller:
        callers.append(MasterCaller(locator, Signer(secret), f"c{len(callers)}/poll"))
        return callers[-1]

    yield make
    for one in callers:
        one.close()


@pytest.fixture
def second() -> Iterator[FakeMaster]:
    with closing(FakeMaster(SECRET)) as fake:
        yield fake


def test_every_answer_is_a_sign_of_life(
    master: FakeMaster, make_caller: Callable[..., MasterCaller]
) -> None:
    locator = MasterLocator(master.url, None)
    caller = make_caller(locator)
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: poll(caller), 1),
        (lambda: caller.get("/starter/v1/cluster", dict), None),
    ]
    for call, result in calls:
        eventually(lambda: locator.silence_s() > 0.1, describe="a silence")
        began = time.monotonic()
        assert call() == result
        assert locator.silence_s() <= time.monotonic() - began


@pytest.mark.parametrize("status", [503, 500])
def test_what_is_the_masters_own_trouble_is_asked_again(
    status: int, master: FakeMaster, make_caller: Callable[..., MasterCaller]
) -> None:
    master.down, master.down_with = True, status

    def mend() -> None:
        master.wait_for(lambda: master.turned_away >= 2, "calls turned away")
        master.down = False

    thread = threading.Thread(target=mend)
    thread.start()
    assert poll(make_caller(MasterLocator(master.url, None))) == 1
    thread.join()


@pytest.mark.parametrize(
    ("revoked", "path", "code"), [(True, "poll", REVOKED), (False, "pool", CANNOT_BEGIN)]
)
def test_what_dismisses_a_starter(
    revoked: bool,
    path: str,
    code: int,
    master: FakeMaster,
    make_caller: Callable[..., MasterCaller],
) -> None:
    master.revoked = revoked
    with pytest.raises(ShutdownError) as caught:
        make_caller(MasterLocator(master.url, None)).post("/starter/v1/" + path, POLL, dict)
    assert caught.value.shutdown.code == code


@pytest.mark.parametrize("knew_the_master", [True, False])
def test_a_stranger_in_place_of_the_master_is_waited_out(
    knew_the_master: bool,
    master: FakeMaster,
    second: FakeMaster,
    make_caller: Callable[..., MasterCaller],
) -> None:
    locator = MasterLocator(master.url, None)
    caller = make_caller(locator)
    if knew_the_master:
        poll(caller)
    master.secret = b"of another job"

    def introduce() -> None:
        master.wait_for(lambda: len(master.refused) >= 2, "refusals")
        locator.update(second.url, 2)

    thread = threading.Thread(target=introduce)
    thread.start()
    assert poll(caller) == 1
    thread.join()
    assert len(second.polls) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"order": 7, "revision": 0},
        {"order": {"number": 1}, "revision": 0},
        {"order": ORDER, "revision": -1},
        {"order": ORDER, "revision": 1.5},
        {"order": {**ORDER, "attempt": "1"}, "revision": 0},
        {"order": {**ORDER, "attempt": True}, "revision": 0},
        {"order": {**ORDER, "grace_s": "nan"}, "revision": 0},
        {"order": ORDER, "revision": 0},
        {"order": ORDER, "revision": 0, "registered": "1"},
    ],
)
def test_a_signed_answer_that_is_not_understood_is_asked_again(
    answer: dict[str, Any], master: FakeMaster, make_caller: Callable[..., MasterCaller]
) -> None:
    answers = [answer, {"order": ORDER, "revision": 3, "registered": 1}]
    master.answer = lambda method, path, body: (200, answers.pop(0))  # type: ignore[method-assign]
    caller = make_caller(MasterLocator(master.url, None))
    order, revision, registered = caller.post("/starter/v1/poll", POLL, rest_registry._read_answer)
    assert (order.number, revision, registered) == (1, 3, 1)


def test_the_master_file_is_followed(
    master: FakeMaster, second: FakeMaster, make_caller: Callable[..., MasterCaller], tmp_path: Path
) -> None:
    path = tmp_path / "master.json"
    locator = MasterLocator(master.url, str(path))
    caller = make_caller(locator)
    poll(caller)
    master.close()
    path.write_text(json.dumps({"url": second.url, "attempt": 2}))
    assert poll(caller) == 1
    assert len(second.polls) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"url": "x", "attempt": 1}',
        '{"url": 1}',
        '{"url": "http://b:1", "attempt": 1e999}',
        '{"url": "http://b:1", "attempt": ' + "9" * 5000 + "}",
        "[" * 60_000,
    ],
)
def test_a_broken_master_file_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "master.json"
    locator = MasterLocator("http://a:1", str(path))
    locator.refresh()
    path.write_text(text)
    locator.refresh()
    assert locator.url == "http://a:1"
    path.write_text(json.dumps({"url": "http://b:2", "attempt": 1}))
    locator.refresh()
    assert locator.url == "http://b:2"


def test_an_older_master_does_not_replace_a_newer() -> None:
    locator = MasterLocator("http://a:1", None)
    assert locator.update("http://c:3", 3)
    assert not locator.update("http://b:2", 2)
    assert not locator.update("http://c:3", 3)
    assert locator.url == "http://c:3"
    with pytest.raises(ValueError, match="not of the form"):
        locator.update("nonsense", 4)
