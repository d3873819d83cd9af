"""Authorization for a job's page: who may read it.

The page has no passwords, so each backend has its own way: on YARN the
ResourceManager's proxy (``backends/yarn/master/web_proxy.py``), on one machine a key in the
address (:class:`KeyPageAuth`). docs/adr/0007 has the reasons.
"""

from __future__ import annotations

import hmac
from typing import Protocol

from ytf.web.messages import HttpError, Request


class PageAuth(Protocol):
    """Decides who may read the page, and at which address."""

    def url(self, master: str) -> str:
        """The address of the page of the master that listens at ``http://host:port``."""
        ...

    async def admit(self, request: Request) -> str:
        """The path of a request, relative to the page.

        Raises :class:`HttpError` if its sender may not read the page.
        """
        ...


class KeyPageAuth:
    """Admits everybody who knows the page's address: ``http://127.0.0.1:4711/<key>/``.

    The master of a local job listens on this machine only, but other users of
    the machine can connect to it. The key is derived from the job's secret, does
    not reveal it, and stays the same after a restart of the master. Only users
    who may read the job's status get the address. The key is part of the path,
    so relative links keep it and no cookie is needed.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.new(secret, b"the key of the page", "sha256").hexdigest()[:32]

    def url(self, master: str) -> str:
        """The page's address, with the key."""
        return f"{master}/{self._key}/"

    async def admit(self, request: Request) -> str:
        """The path after the key; raises a 404 if the key is wrong."""
        _, key, *rest = request.path.split("/", 2)
        if not hmac.compare_digest(key.encode("latin-1"), self._key.encode()):
            raise HttpError(404, f"there is nothing at {request.path}")
        if not rest:
            raise HttpError(302, "the page is a directory", (("Location", f"/{key}/"),))
        return rest[0]
