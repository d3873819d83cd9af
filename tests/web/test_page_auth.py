from __future__ import annotations

import pytest

from ytf.web.messages import HttpError, Request
from ytf.web.page_auth import KeyPageAuth

ACCESS = KeyPageAuth(b"a secret")
URL = ACCESS.url("http://127.0.0.1:4711")


def get(path: str) -> Request:
    return Request("GET", path, {})


async def test_the_address_is_the_key() -> None:
    path = URL.removeprefix("http://127.0.0.1:4711")
    assert URL.endswith("/")
    assert await ACCESS.admit(get(path)) == ""
    assert await ACCESS.admit(get(f"{path}tasks/worker/0/log?stream=stderr")) == (
        "tasks/worker/0/log"
    )
    with pytest.raises(HttpError) as caught:
        await ACCESS.admit(get(path.rstrip("/")))
    assert (caught.value.status, caught.value.headers) == (302, (("Location", path),))


@pytest.mark.parametrize("path", ["/", "/api/status", "//api/status", f"/{'0' * 32}/", "/é/"])
async def test_without_it_there_is_nothing(path: str) -> None:
    with pytest.raises(HttpError) as caught:
        await ACCESS.admit(get(path))
    assert caught.value.status == 404


def test_another_job_has_another_key_and_a_new_master_the_same() -> None:
    assert KeyPageAuth(b"a secret").url("u") == ACCESS.url("u")
    assert KeyPageAuth(b"another secret").url("u") != ACCESS.url("u")
