"""DIGEST-MD5: the examples of the RFC, and the layers of client and server."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hadoop.rpc.server import server_layer
from ytf.hadoop.proto.messages import MalformedMessageError
from ytf.hadoop.rpc import ciphers, digest_md5
from ytf.hadoop.rpc.errors import AuthenticationError

IMAP = digest_md5.Exchange(
    user="chris",
    password="secret",
    realm="elwood.innosoft.com",
    nonce="OA6MG9tEQGm2hh",
    cnonce="OA6MHXh6VqTrRk",
    uri="imap/elwood.innosoft.com",
)
ACAP = digest_md5.Exchange(
    user="chris",
    password="secret",
    realm="elwood.innosoft.com",
    nonce="OA9BSXrbuRhWay",
    cnonce="OA9BSuZWMSpW8m",
    uri="acap/elwood.innosoft.com",
)


def test_the_examples_of_rfc_2831() -> None:
    assert IMAP.response() == "d388dad90d4bbd760a152321f2143af7"
    assert IMAP.rspauth() == "ea40f60335c427b5527b84dbabcdfffd"
    assert ACAP.response() == "6084c6db3fede7352c551284490fd0fc"
    assert ACAP.rspauth() == "2f0b3d7c3c2e486600ef710726aa2eae"


def test_a_challenge_as_the_jdk_writes_it() -> None:
    challenge = digest_md5.parse_challenge(
        b'realm="default",nonce="a/b+c=",qop="auth-conf,auth",charset=utf-8,'
        b'cipher="3des,rc4",maxbuf=4096,algorithm=md5-sess'
    )
    assert challenge == digest_md5.Challenge(
        "a/b+c=", "default", ("auth-conf", "auth"), ("3des", "rc4"), 4096
    )


@pytest.mark.parametrize(
    "challenge",
    [
        b'realm="x"',
        b'nonce="a",algorithm=md5',
        b'nonce="a",maxbuf=1',
        b'nonce="a",maxbuf=x',
        b'nonce="a" nonsense',
        b'nonce="a',
        b"\xff",
        b"x" * 5000,
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        digest_md5.parse_challenge(challenge)


@given(st.binary(max_size=60) | st.text(alphabet='ab=",\\ \t', max_size=60).map(str.encode))
def test_any_bytes_are_directives_or_refused(data: bytes) -> None:
    try:
        digest_md5.parse_directives(data)
    except MalformedMessageError:
        return


@pytest.mark.parametrize("data", [b" " * 200_000 + b"=", b"a" + b" " * 200_000, b"," * 200_000])
def test_spaces_take_no_more_than_their_number(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far above the limit, where the square of it is many minutes."""
    monkeypatch.setattr(digest_md5, "_MAX_CHALLENGE_BYTES", len(data))
    began = time.thread_time()
    with contextlib.suppress(MalformedMessageError):
        digest_md5.parse_directives(data)
    assert time.thread_time() - began < 30


@given(st.text(alphabet='ab"\\,= ', min_size=1, max_size=20))
def test_quoted_values_survive(user: str) -> None:
    exchange = digest_md5.Exchange(user, "p", "r", "n", "c", "/default", digest_md5.AUTH_CONF)
    said = digest_md5.parse_directives(digest_md5.format_response(exchange, "rc4"))
    assert said["username"] == user
    assert said["cipher"] == "rc4"
    assert said["response"] == exchange.response()


def offered(qops: str, cipher: str = "") -> digest_md5.Challenge:
    return digest_md5.parse_challenge(f'nonce="n",qop="{qops}",cipher="{cipher}"'.encode())


def test_the_servers_order_decides() -> None:
    assert digest_md5.choose(offered("auth-int,auth")) == ("auth-int", "")
    assert digest_md5.choose(offered("auth-conf,auth", "3des,des,rc4-40,rc4")) == (
        "auth-conf",
        "rc4",
    )
    assert digest_md5.choose(offered("auth-conf", "3des,des")) == ("auth-conf", "3des")


def test_what_we_do_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationError, match="auth-quantum"):
        digest_md5.choose(offered("auth-quantum"))
    with pytest.raises(AuthenticationError, match="ciphers that ytf does not support: des"):
        digest_md5.choose(offered("auth-conf", "des"))
    monkeypatch.setattr(digest_md5, "can_do_3des", lambda: False)
    with pytest.raises(AuthenticationError, match="'cryptography'") as caught:
        digest_md5.choose(offered("auth-conf", "3des"))
    assert caught.value.hint == "pip install cryptography"


LAYERS = [
    (digest_md5.AUTH_INT, ""),
    (digest_md5.AUTH_CONF, "rc4"),
    (digest_md5.AUTH_CONF, "rc4-40"),
    (digest_md5.AUTH_CONF, "rc4-56"),
    (digest_md5.AUTH_CONF, "3des"),
]


def layers(qop: str, cipher: str) -> tuple[digest_md5.DigestLayer, digest_md5.DigestLayer]:
    exchange = digest_md5.Exchange("u", "p", "r", "n", "c", "/default", qop)
    client = digest_md5.client_layer(exchange, cipher, 65536)
    server = server_layer(exchange, cipher, 65536)
    assert client is not None
    assert server is not None
    return client, server


@given(st.sampled_from(LAYERS), st.lists(st.binary(max_size=100), max_size=5))
def test_layers_understand_each_other(kind: tuple[str, str], messages: list[bytes]) -> None:
    client, server = layers(*kind)
    for message in messages:
        wrapped = client.wrap(message)
        assert len(wrapped) <= len(message) + 26
        assert server.unwrap(wrapped) == message
        assert client.unwrap(server.wrap(message)) == message


@given(st.sampled_from(LAYERS), st.binary(max_size=60))
def test_any_bytes_are_refused_by_a_layer(kind: tuple[str, str], data: bytes) -> None:
    client, _ = layers(*kind)
    with pytest.raises(MalformedMessageError):
        client.unwrap(data)


@pytest.mark.parametrize("kind", LAYERS)
def test_nothing_can_be_changed_repeated_or_left_out(kind: tuple[str, str]) -> None:
    client, server = layers(*kind)
    first, second = client.wrap(b"first one"), client.wrap(b"second one")
    with pytest.raises(MalformedMessageError, match="out of order"):
        server.unwrap(second)
    client, server = layers(*kind)
    changed = bytearray(first)
    changed[0] ^= 1
    with pytest.raises(MalformedMessageError):
        server.unwrap(bytes(changed))
    client, server = layers(*kind)
    assert server.unwrap(first) == b"first one"
    with pytest.raises(MalformedMessageError):
        server.unwrap(first)


def test_plain_auth_has_no_layer() -> None:
    assert digest_md5.client_layer(IMAP, "", 65536) is None


def test_rc4_against_known_vectors() -> None:
    assert ciphers.Rc4(b"Key").process(b"Plaintext").hex() == "bbf316e8d940af0ad3"
    split = ciphers.Rc4(b"Wiki")
    assert (split.process(b"ped") + split.process(b"ia")).hex() == "1021bf0420"


def test_3des_keys_have_odd_parity_and_the_chain_runs_on() -> None:
    key = bytes(range(16))
    whole = ciphers.TripleDes(key, encrypt=True).process(b"0123456789abcdef")
    parts = ciphers.TripleDes(key, encrypt=True)
    assert parts.process(b"01234567") + parts.process(b"89abcdef") == whole
    assert ciphers.TripleDes(key, encrypt=False).process(whole) == b"0123456789abcdef"
    assert all(byte.bit_count() % 2 for byte in ciphers._des_key(key[:7]))
