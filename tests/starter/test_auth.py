from __future__ import annotations

import hashlib

import pytest

from tests.starter.fake_master import sign
from ytf.starter.auth import Replays, Signer, body_digest, same


@pytest.mark.parametrize("secret", [b"", b"short", b"x" * 64, b"y" * 200])
def test_signatures_are_hmac_sha256(secret: bytes) -> None:
    digest = hashlib.sha256(b"body").hexdigest()
    assert body_digest(b"body") == digest
    ours = Signer(secret).request("POST", "/a?b=ä", "c1/poll", 17, digest)
    assert ours == sign(secret, "POST", "/a?b=ä", "c1/poll", "17", digest)
    assert Signer(secret).answer(ours, 200, digest) == sign(secret, "answer", ours, "200", digest)


def test_same() -> None:
    assert same("abc", "abc")
    assert not same("abc", "abd")
    assert not same("abc", "ab")


def test_counters_only_grow_within_an_actor() -> None:
    seen = Replays()
    assert seen.accept("a", 5)
    assert not seen.accept("a", 5)
    assert not seen.accept("a", 4)
    assert seen.accept("a", 6)
    assert seen.accept("b", 1)


def test_an_actor_that_was_forgotten_cannot_be_replayed() -> None:
    seen = Replays(limit=2)
    assert seen.accept("a", 10)
    assert seen.accept("b", 20)
    assert seen.accept("c", 30)
    assert not seen.accept("a", 10)
    assert not seen.accept("d", 5)
    assert seen.accept("d", 11)
