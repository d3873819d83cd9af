from __future__ import annotations

import hashlib

import pytest

from tests.starter.fake_master import sign
from ytf.wire.signing import ReplayGuard, Signer, answer_header, body_digest, request_header


@pytest.mark.parametrize("secret", [b"", b"short", b"x" * 64, b"y" * 200])
def test_signatures_are_hmac_sha256(secret: bytes) -> None:
    digest = hashlib.sha256(b"body").hexdigest()
    assert body_digest(b"body") == digest
    ours = Signer(secret).sign_request("POST", "/a?b=ä", "c1/poll", 17, digest)
    assert ours == sign(secret, "POST", "/a?b=ä", "c1/poll", "17", digest)
    assert Signer(secret).sign_answer(ours, 200, digest) == sign(
        secret, "answer", ours, "200", digest
    )


def test_a_head_tells_who_signed_it_and_what_follows() -> None:
    signer, digest = Signer(b"secret"), body_digest(b"body")
    signature = signer.sign_request("GET", "/a", "c1/poll", 17, digest)
    header = request_header("c1/poll", 17, digest, signature)
    found = signer.verify_request("GET", "/a", header)
    assert found is not None
    assert (found.actor, found.counter, found.digest) == ("c1/poll", 17, digest)
    assert found.signature == signature
    answer = answer_header(digest, signer.sign_answer(signature, 200, digest))
    assert signer.verify_answer(signature, 200, answer) == digest


@pytest.mark.parametrize("change", [("17", "18"), ("c1", "c2"), (" ", "  "), ("17", "9" * 5000)])
def test_a_changed_head_is_not_signed(change: tuple[str, str]) -> None:
    signer, digest = Signer(b"secret"), body_digest(b"body")
    signature = signer.sign_request("GET", "/a", "c1/poll", 17, digest)
    header = request_header("c1/poll", 17, digest, signature)
    assert signer.verify_request("GET", "/a", header.replace(*change, 1)) is None
    assert signer.verify_request("PUT", "/a", header) is None
    assert Signer(b"other").verify_request("GET", "/a", header) is None
    answer = answer_header(digest, signer.sign_answer(signature, 200, digest))
    assert signer.verify_answer(signature, 201, answer) is None
    assert signer.verify_answer(digest, 200, answer) is None
    assert signer.verify_answer(signature, 200, answer[:-1]) is None


def test_counters_only_grow_within_an_actor() -> None:
    seen = ReplayGuard()
    assert seen.accept("a", 5)
    assert not seen.accept("a", 5)
    assert not seen.accept("a", 4)
    assert seen.accept("a", 6)
    assert seen.accept("b", 1)


def test_an_actor_that_was_forgotten_cannot_be_replayed() -> None:
    seen = ReplayGuard(limit=2)
    assert seen.accept("a", 10)
    assert seen.accept("b", 20)
    assert seen.accept("c", 30)
    assert not seen.accept("a", 10)
    assert not seen.accept("d", 5)
    assert seen.accept("d", 11)
