"""The SASL negotiation, message by message."""

from __future__ import annotations

import pytest

from ytf.hadoop.proto.messages import MalformedMessageError
from ytf.hadoop.proto.rpc_pb2 import SaslAuth, SaslMessage
from ytf.hadoop.rpc import digest_md5, sasl
from ytf.hadoop.rpc.errors import AuthenticationError
from ytf.hadoop.security.credentials import Token
from ytf.hadoop.security.login import Login

TOKEN = Token(b"\x0a\x02id", b"\x00\xffpw", "K")
CHALLENGE = b'realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'


def token_offer() -> SaslAuth:
    return SaslAuth(
        method="TOKEN", mechanism="DIGEST-MD5", protocol="", server_id="default",
        challenge=CHALLENGE,
    )  # fmt: skip


SIMPLE = SaslAuth(method="SIMPLE", mechanism="")
KERBEROS = SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol="rm", server_id="host")


def offer(*auths: SaslAuth) -> SaslMessage:
    return SaslMessage(state=sasl.NEGOTIATE, auths=auths)


def with_token(*, secure: bool = True) -> sasl.SaslNegotiation:
    return sasl.SaslNegotiation(Login(user="alice", token=TOKEN, secure=secure), cnonce="c")


def exchange() -> digest_md5.Exchange:
    return digest_md5.Exchange("CgJpZA==", "AP9wdw==", "default", "n", "c", "/default")


def test_a_token_is_used_where_it_is_offered() -> None:
    negotiation = with_token()
    assert negotiation.begin().state == sasl.NEGOTIATE
    step = negotiation.receive(offer(SaslAuth(method="NEW", mechanism="?"), token_offer(), SIMPLE))
    assert step.reply is not None
    assert not step.done
    [chosen] = step.reply.auths
    assert step.reply.state == sasl.INITIATE
    # The server compares: present but empty stays present but empty.
    assert chosen.HasField("protocol")
    assert not chosen.HasField("challenge")
    assert step.reply.token == digest_md5.format_response(exchange(), "")
    proof = f"rspauth={exchange().rspauth()}".encode()
    assert negotiation.receive(SaslMessage(state=sasl.SUCCESS, token=proof)) == sasl.SaslStep(
        None, True
    )
    assert (negotiation.method, negotiation.layer) == ("TOKEN", None)


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    negotiation = with_token()
    negotiation.receive(offer(token_offer()))
    with pytest.raises(AuthenticationError, match="could not prove"):
        negotiation.receive(SaslMessage(state=sasl.SUCCESS, token=b"rspauth=00"))


def test_simple_within_sasl_ends_without_an_answer() -> None:
    negotiation = sasl.SaslNegotiation(Login(user="alice"))
    step = negotiation.receive(offer(token_offer(), SIMPLE))
    assert step.done
    assert step.reply is not None
    assert (step.reply.state, list(step.reply.auths)) == (sasl.INITIATE, [SIMPLE])
    assert not step.reply.HasField("token")
    assert negotiation.method == "SIMPLE"


def test_a_server_without_security_says_success_at_once() -> None:
    negotiation = with_token(secure=False)
    assert negotiation.receive(SaslMessage(state=sasl.SUCCESS)).done
    assert negotiation.method == "SIMPLE"


def test_who_must_be_secure_is_not_talked_out_of_it() -> None:
    with pytest.raises(AuthenticationError, match="no proof"):
        with_token().receive(SaslMessage(state=sasl.SUCCESS))
    with pytest.raises(AuthenticationError, match=r"the server offers SIMPLE/"):
        with_token().receive(offer(SIMPLE))


def test_kerberos_has_its_place_and_is_not_in_this_version() -> None:
    for login in (Login(user="a", secure=True), Login(user="a")):
        with pytest.raises(AuthenticationError, match="not in this version"):
            sasl.SaslNegotiation(login).receive(offer(token_offer(), KERBEROS))


def test_mechanisms_we_do_not_have_are_named() -> None:
    with pytest.raises(AuthenticationError, match="TOKEN/SCRAM"):
        with_token().receive(offer(SaslAuth(method="TOKEN", mechanism="SCRAM")))


@pytest.mark.parametrize("state", [sasl.INITIATE, sasl.CHALLENGE, sasl.RESPONSE, sasl.WRAP, 77])
def test_words_out_of_order_are_refused(state: int) -> None:
    with pytest.raises(MalformedMessageError):
        with_token().receive(SaslMessage(state=state))


def test_a_second_offer_or_challenge_is_refused() -> None:
    for state in (sasl.NEGOTIATE, sasl.CHALLENGE):
        negotiation = with_token()
        negotiation.receive(offer(token_offer()))
        with pytest.raises(MalformedMessageError):
            negotiation.receive(SaslMessage(state=state, auths=[token_offer()]))
