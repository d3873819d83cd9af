from __future__ import annotations

import msgspec
import pytest

from ytf.backends import master_api
from ytf.errors import UnreachableError
from ytf.specs.status import JobEvent
from ytf.web.client_api import _KILL
from ytf.wire.http_client import Answer, NotSentError


@pytest.mark.parametrize("body", [b"", b"{}", b"[7]", b"[" * 60_000, b"9" * 5000, b"\xff"])
def test_an_answer_that_is_not_understood_is_no_bug(body: bytes) -> None:
    with pytest.raises(UnreachableError, match="not understood") as caught:
        master_api.decode(Answer(200, body, {}), list[JobEvent])
    assert "another version of ytf" in (caught.value.hint or "")


@pytest.mark.parametrize("url", ["", "http://h:0", "http://h:" + "9" * 5000, "ftp://h:1"])
def test_an_address_that_is_none_is_not_called(url: str) -> None:
    with pytest.raises(NotSentError, match="address is not understood"):
        master_api.signed_call(url, b"s", "GET", "/", b"", 1.0)


def test_a_kill_with_a_long_reason_is_taken() -> None:
    body = master_api.kill_body("me", "x" * 100_000)
    assert _KILL.decode(body).reason == "x" * 4096
    with pytest.raises(msgspec.ValidationError):
        _KILL.decode(msgspec.json.encode({"by": "me", "reason": "x" * 100_000}))
