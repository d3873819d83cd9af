"""Who may read a job's page. The page has no passwords, so each backend has its own way in.

On YARN that is the ResourceManager's proxy (``backends/yarn/proxy.py``), on one
machine a key in the address (:class:`KeyAccess`). docs/adr/0007 has the reasons.
"""

from __future__ import annotations

import hmac
from typing import Protocol

from ytf.web.messages import HttpError, Request


class Access(Protocol):
    """The door of the page."""

    def url(self, master: str) -> str:
        """Where people find the page of the master that listens at ``http://host:port``."""
        ...

    async def admit(self, request: Request) -> str:
        """What is asked for, as a path relative to the page.

        Raises :class:`HttpError` for whoever may not read it.
        """
        ...


class KeyAccess:
    """Lets in whoever knows the address, for it has a key: ``http://127.0.0.1:4711/<key>/``.

    The master of a local job listens on this machine alone, but so does
    everybody else on it. The key is derived from the job's secret, tells
    nothing about it, and stays the same when the master is started again. Only
    those who may ask for the job's status are told the address. As part of the
    path it goes with every relative link and needs no cookie.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.new(secret, b"the key of the page", "sha256").hexdigest()[:32]

    def url(self, master: str) -> str:
        """The page's address, with the key."""
        return f"{master}/{self._key}/"

    async def admit(self, request: Request) -> str:
        """A 404 for whoever does not know the key: there is nothing for them here."""
        _, key, *rest = request.path.split("/", 2)
        if not hmac.compare_digest(key.encode("latin-1"), self._key.encode()):
            raise HttpError(404, f"there is nothing at {request.path}")
        if not rest:
            raise HttpError(302, "the page is a directory", (("Location", f"/{key}/"),))
        return rest[0]
