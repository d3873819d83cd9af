from __future__ import annotations

import time

import pytest

from tests.web.conftest import Site
from tests.web.wire import SECRET, connected
from ytf.starter.auth import Signer, body_digest
from ytf.web.messages import HttpError, Request
from ytf.web.signing import Gatekeeper, container_of, require_client


def signed(actor: str, counter: int, *, body: bytes = b"", secret: bytes = SECRET) -> Request:
    signature = Signer(secret).request("POST", "/p?q", actor, counter, body_digest(body))
    headers = {"ytf-auth": f"{actor} {counter} {signature}"}
    return Request("POST", "/p?q", headers, body=body)


def refused(gatekeeper: Gatekeeper, request: Request) -> str:
    with pytest.raises(HttpError) as refusal:
        gatekeeper.admit(request)
    assert refusal.value.status == 401
    return str(refusal.value)


def test_a_right_signature_is_admitted() -> None:
    request = signed("c1/poll", 7)
    Gatekeeper(SECRET).admit(request)
    assert request.actor == "c1/poll"
    assert request.signature == request.headers["ytf-auth"].split()[2]


@pytest.mark.parametrize(
    "change", ["method", "target", "body", "actor", "counter", "signature", "secret"]
)
def test_a_signature_covers_everything(change: str) -> None:
    request = signed("c1/poll", 7, secret=b"other" if change == "secret" else SECRET)
    actor, counter, signature = request.headers["ytf-auth"].split()
    if change == "method":
        request.method = "GET"
    elif change == "target":
        request.target = "/p?r"
    elif change == "body":
        request.body = b"x"
    elif change == "actor":
        actor = "c2/poll"
    elif change == "counter":
        counter = "8"
    elif change == "signature":
        signature = signature[:-1] + ("0" if signature[-1] != "0" else "1")
    request.headers["ytf-auth"] = f"{actor} {counter} {signature}"
    assert "signature" in refused(Gatekeeper(SECRET), request)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "a 1",
        "a 1 zz",
        "a -1 " + "0" * 64,
        "a ² " + "0" * 64,
        "ä 1 " + "0" * 64,
        "a 1 " + "0" * 63 + "é",
        "a " + "1" * 400 + " " + "0" * 64,
        "a 1 " + "0" * 64 + "\n",
    ],
)
def test_no_header_crashes_it(header: str | None) -> None:
    headers = {} if header is None else {"ytf-auth": header}
    refused(Gatekeeper(SECRET), Request("POST", "/p", headers))


def test_a_replay_is_refused_per_actor() -> None:
    gatekeeper = Gatekeeper(SECRET)
    gatekeeper.admit(signed("c1/poll", 7))
    assert "used before" in refused(gatekeeper, signed("c1/poll", 7))
    assert "used before" in refused(gatekeeper, signed("c1/poll", 6))
    gatekeeper.admit(signed("c1/report", 7))
    gatekeeper.admit(signed("c2/poll", 7))
    gatekeeper.admit(signed("c1/poll", 8))


def test_a_forged_request_does_not_use_a_counter_up() -> None:
    gatekeeper = Gatekeeper(SECRET)
    refused(gatekeeper, signed("c1/poll", 99, secret=b"other"))
    assert len(gatekeeper) == 0
    gatekeeper.admit(signed("c1/poll", 7))


def test_memory_is_bounded() -> None:
    gatekeeper = Gatekeeper(SECRET)
    for channel in ("poll", "report"):
        gatekeeper.admit(signed(f"c1/{channel}", 1))
    gatekeeper.forget("c1")
    assert len(gatekeeper) == 0
    for i in range(3000):
        gatekeeper.admit(signed(f"client/{i}", 1))
    assert len(gatekeeper) == 1024
    refused(gatekeeper, signed("client/2999", 1))


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
