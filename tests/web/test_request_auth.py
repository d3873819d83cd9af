from __future__ import annotations

import time

import pytest

from tests.web.conftest import Site
from tests.web.raw_client import SECRET, connected
from ytf.web import request_auth
from ytf.web.messages import HttpError, Request
from ytf.web.request_auth import RequestVerifier, container_of, require_client
from ytf.wire.signing import Signer, body_digest

HEX = "0" * 64


def signed(actor: str, counter: int, *, body: bytes = b"", secret: bytes = SECRET) -> Request:
    digest = body_digest(body)
    signature = Signer(secret).sign_request("POST", "/p?q", actor, counter, digest)
    headers = {"ytf-auth": f"{actor} {counter} {digest} {signature}"}
    request = Request("POST", "/p?q", headers)
    request.body = body
    return request


def refused(verifier: RequestVerifier, request: Request) -> str:
    with pytest.raises(HttpError) as refusal:
        verifier.verify(request)
    assert refusal.value.status == 401
    return str(refusal.value)


def test_a_right_signature_is_admitted() -> None:
    request = signed("c1/poll", 7)
    RequestVerifier(SECRET).verify(request)
    assert request.actor == "c1/poll"
    assert request.headers["ytf-auth"].split()[2:] == [request.digest, request.signature]


@pytest.mark.parametrize(
    "change", ["method", "target", "digest", "actor", "counter", "signature", "secret"]
)
def test_a_signature_covers_everything(change: str) -> None:
    request = signed("c1/poll", 7, secret=b"other" if change == "secret" else SECRET)
    actor, counter, digest, signature = request.headers["ytf-auth"].split()
    if change == "method":
        request.method = "GET"
    elif change == "target":
        request.target = "/p?r"
    elif change == "digest":
        digest = body_digest(b"x")
    elif change == "actor":
        actor = "c2/poll"
    elif change == "counter":
        counter = "8"
    elif change == "signature":
        signature = signature[:-1] + ("0" if signature[-1] != "0" else "1")
    request.headers["ytf-auth"] = f"{actor} {counter} {digest} {signature}"
    assert "signature" in refused(RequestVerifier(SECRET), request)


def test_the_body_must_be_the_announced_one() -> None:
    verifier = RequestVerifier(SECRET)
    request = signed("c1/poll", 7, body=b"right")
    verifier.verify(request)
    verifier.verify_body(request)
    request.body = b"wrong"
    with pytest.raises(HttpError, match="not the one"):
        verifier.verify_body(request)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "a 1",
        "a 1 zz zz",
        f"a -1 {HEX} {HEX}",
        f"a ² {HEX} {HEX}",
        f"ä 1 {HEX} {HEX}",
        f"a 1 {HEX} {HEX[1:]}é",
        f"a {'1' * 5000} {HEX} {HEX}",
        f"a 1 {HEX} {HEX}\n",
        f"a 1 {HEX}",
    ],
)
def test_no_header_crashes_it(header: str | None) -> None:
    headers = {} if header is None else {"ytf-auth": header}
    refused(RequestVerifier(SECRET), Request("POST", "/p", headers))


def test_a_replay_is_refused_per_actor() -> None:
    verifier = RequestVerifier(SECRET)
    verifier.verify(signed("c1/poll", 7))
    assert "used before" in refused(verifier, signed("c1/poll", 7))
    assert "used before" in refused(verifier, signed("c1/poll", 6))
    verifier.verify(signed("c1/report", 7))
    verifier.verify(signed("c2/poll", 7))
    verifier.verify(signed("c1/poll", 8))


def test_a_forged_request_does_not_use_a_counter_up() -> None:
    verifier = RequestVerifier(SECRET)
    refused(verifier, signed("c1/poll", 99, secret=b"other"))
    assert len(verifier) == 0
    verifier.verify(signed("c1/poll", 7))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_auth, "_REMEMBERED", 100)
    verifier = RequestVerifier(SECRET)
    verifier.verify(signed("c0/poll", 1))
    for i in range(300):
        verifier.verify(signed(f"client/{i}", 1))
        verifier.verify(signed(f"c1.{i}/poll", 1))
        verifier.forget(f"c1.{i}")
    assert len(verifier) == 101
    refused(verifier, signed("client/299", 1))
    refused(verifier, signed("c0/poll", 1))


def test_a_request_of_an_ended_container_cannot_be_repeated() -> None:
    verifier = RequestVerifier(SECRET)
    verifier.verify(signed("c1/poll", 7))
    verifier.forget("c1")
    refused(verifier, signed("c1/poll", 7))
    verifier.verify(signed("c1/poll", 8))
    verifier.forget("c1")
    refused(verifier, signed("c1/poll", 8))


def test_surfaces_know_their_actors() -> None:
    request = Request("GET", "/", {})
    request.actor = "job/c1/poll"
    assert container_of(request) == "job/c1"
    with pytest.raises(HttpError):
        require_client(request)
    request.actor = "client/abc"
    require_client(request)
    with pytest.raises(HttpError):
        container_of(request)


async def test_answers_are_signed_and_refusals_are_not(site: Site) -> None:
    async with connected(site.port, "c1/report") as peer:
        assert (await peer.ask("POST", "/signed", {"a": 1})).json() == {"a": 1}
        peer.counter -= 1
        assert (await peer.ask("POST", "/signed")).status == 401
        peer.counter = time.time_ns()
        assert (await peer.ask("POST", "/signed")).status == 200


async def test_a_recorded_request_cannot_be_sent_again(site: Site) -> None:
    async with connected(site.port, "c1/report") as peer:
        recorded = peer.signed("POST", "/signed", b"1")
        assert (await peer.raw(recorded)).status == 200
        assert (await peer.raw(recorded)).status == 401
    async with connected(site.port) as other:
        assert (await other.raw(recorded)).status == 401
    assert site.bodies == [b"1"]
