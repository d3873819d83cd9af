from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.starter.conftest import SECRET, eventually
from tests.starter.fake_master import FakeMaster
from ytf.starter import link as module
from ytf.starter.auth import Signer
from ytf.starter.link import Link
from ytf.starter.situation import CANNOT_BEGIN, REVOKED, DismissedError
from ytf.starter.whereabouts import Whereabouts

POLL = {"task": "worker:0", "attempt": 0, "container": "c1", "order": 0, "revision": 0}


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.05)


@pytest.fixture
def link() -> Iterator[Callable[..., Link]]:
    links: list[Link] = []

    def make(whereabouts: Whereabouts, secret: bytes = SECRET) -> Link:
        links.append(Link(whereabouts, Signer(secret), f"c{len(links)}/poll"))
        return links[-1]

    yield make
    for one in links:
        one.close()


@pytest.fixture
def second() -> Iterator[FakeMaster]:
    with closing(FakeMaster(SECRET)) as fake:
        yield fake


def test_every_answer_is_a_sign_of_life(master: FakeMaster, link: Callable[..., Link]) -> None:
    whereabouts = Whereabouts(master.url, None)
    talk = link(whereabouts)
    for method, path, body, status in [
        ("POST", "/starter/v1/poll", POLL, 200),
        ("GET", "/starter/v1/cluster", None, 404),
    ]:
        eventually(lambda: whereabouts.silence_s() > 0.1, "a silence")
        assert talk.ask(method, path, body).status == status
        assert whereabouts.silence_s() < 0.1


@pytest.mark.parametrize("status", [503, 500])
def test_what_is_the_masters_own_trouble_is_asked_again(
    status: int, master: FakeMaster, link: Callable[..., Link]
) -> None:
    master.down, master.down_with = True, status

    def mend() -> None:
        master.wait_for(lambda: master.turned_away >= 2, "calls turned away")
        master.down = False

    thread = threading.Thread(target=mend)
    thread.start()
    assert link(Whereabouts(master.url, None)).ask("POST", "/starter/v1/poll", POLL).status == 200
    thread.join()


@pytest.mark.parametrize(
    ("revoked", "path", "code"), [(True, "poll", REVOKED), (False, "pool", CANNOT_BEGIN)]
)
def test_what_dismisses_a_starter(
    revoked: bool, path: str, code: int, master: FakeMaster, link: Callable[..., Link]
) -> None:
    master.revoked = revoked
    with pytest.raises(DismissedError) as caught:
        link(Whereabouts(master.url, None)).ask("POST", "/starter/v1/" + path, POLL)
    assert caught.value.ended.code == code


def test_a_wrong_secret_from_the_beginning_is_not_waited_out(
    master: FakeMaster, link: Callable[..., Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SIGNATURE_PATIENCE_S", 0.1)
    with pytest.raises(DismissedError, match="secret_file") as caught:
        link(Whereabouts(master.url, None), b"wrong").ask("POST", "/starter/v1/poll", POLL)
    assert caught.value.ended.code == CANNOT_BEGIN
    assert len(master.refused) >= 2


def test_a_stranger_in_place_of_a_known_master_is_waited_out(
    master: FakeMaster,
    second: FakeMaster,
    link: Callable[..., Link],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SIGNATURE_PATIENCE_S", 0.0)
    whereabouts = Whereabouts(master.url, None)
    talk = link(whereabouts)
    talk.ask("POST", "/starter/v1/poll", POLL)
    master.secret = b"of another job"

    def introduce() -> None:
        master.wait_for(lambda: len(master.refused) >= 2, "refusals")
        whereabouts.told(second.url, 2)

    thread = threading.Thread(target=introduce)
    thread.start()
    assert talk.ask("POST", "/starter/v1/poll", POLL).status == 200
    thread.join()
    assert len(second.polls) == 1


def test_the_master_file_is_followed(
    master: FakeMaster, second: FakeMaster, link: Callable[..., Link], tmp_path: Path
) -> None:
    path = tmp_path / "master.json"
    whereabouts = Whereabouts(master.url, str(path))
    talk = link(whereabouts)
    talk.ask("POST", "/starter/v1/poll", POLL)
    master.close()
    path.write_text(json.dumps({"url": second.url, "attempt": 2}))
    assert talk.ask("POST", "/starter/v1/poll", POLL).status == 200
    assert len(second.polls) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": "x", "attempt": 1}', '{"url": 1}'])
def test_a_broken_master_file_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "master.json"
    whereabouts = Whereabouts("http://a:1", str(path))
    whereabouts.reread()
    path.write_text(text)
    whereabouts.reread()
    assert whereabouts.url == "http://a:1"
    path.write_text(json.dumps({"url": "http://b:2", "attempt": 1}))
    whereabouts.reread()
    assert whereabouts.url == "http://b:2"


def test_an_older_master_does_not_replace_a_newer() -> None:
    whereabouts = Whereabouts("http://a:1", None)
    assert whereabouts.told("http://c:3", 3)
    assert not whereabouts.told("http://b:2", 2)
    assert not whereabouts.told("http://c:3", 3)
    assert whereabouts.url == "http://c:3"
    with pytest.raises(ValueError, match="not of the form"):
        whereabouts.told("nonsense", 4)
