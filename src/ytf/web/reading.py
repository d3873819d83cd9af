"""What people may read of a running job: its page, the same as JSON, the ends of its logs.

Below the page's own address (:class:`~ytf.web.access.Access`), by GET only:

==================================  ==================================================
path                                answer
==================================  ==================================================
(empty)                             the page
``api/version``                     a word that changes whenever the page does
``api/status``                      as ``ytf status --json``
``api/events``                      as ``ytf events --json``
``api/spec``                        as ``ytf spec``: the cluster spec, null before it is
``tasks/<group>/<index>/log``       the end of a log, as text: ``?stream=stderr&size=32768``
==================================  ==================================================

Nothing here changes anything. Every answer has a body: YARN's proxy breaks on
one without, so there is no 304. Nothing is kept by caches, as what one person
may read another may not.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import Protocol

from ytf.specs.names import TaskId, task_id
from ytf.web.access import Access
from ytf.web.http import HttpServer
from ytf.web.jobapi import JobView
from ytf.web.messages import Headers, HttpError, Request, Response
from ytf.web.tails import LogPlace, Tails

USUAL_SIZE = 32 * 1024
_LOG = re.compile(r"tasks/([A-Za-z0-9_]{1,100})/([0-9]{1,9})/log", re.ASCII).fullmatch
_SIZE = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch
_OTHER_SURFACES = ("/client/", "/starter/")
_TEXT = "text/plain; charset=utf-8"
_SAFE: Headers = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


class PageView(JobView, Protocol):
    """The job as its page shows it."""

    def waits_for(self) -> str:
        """What the job waits for now, in a sentence or two; empty if it does not wait."""
        ...

    def log_place(self, task: TaskId) -> LogPlace | None:
        """Where a task writes; None if there is no such task, or it has not run yet."""
        ...


class ReadSurface:
    """Serves a job's page to those whom its door lets in."""

    def __init__(
        self, server: HttpServer, view: PageView, access: Access, *, secret: bytes
    ) -> None:
        self._view = view
        self._access = access
        self._tails = Tails(secret)
        # Versions count within one master, and the page may outlive it.
        self._master = os.urandom(4).hex()
        server.otherwise(self._answer)

    async def _answer(self, request: Request) -> Response:
        if request.path.startswith(_OTHER_SURFACES):
            raise HttpError(404, f"there is nothing at {request.path}")
        try:
            if request.method != "GET":
                raise HttpError(405, "this can only be read", (("Allow", "GET"),))
            return await self._read(await self._access.admit(request), request)
        except HttpError as error:
            # To a person, not to a program.
            text = f"{error}\n".encode()
            return Response(
                text, status=error.status, content_type=_TEXT, headers=(*error.headers, *_SAFE)
            )

    async def _read(self, path: str, request: Request) -> Response:
        match path:
            case "":
                return self._page()
            case "api/version":
                return _json(self._version())
            case "api/status":
                return _json(self._view.status())
            case "api/events":
                return _json(self._view.events())
            case "api/spec":
                return _json(self._view.cluster_spec())
        log = _LOG(path)
        if log is None:
            raise HttpError(404, "there is no such page of this job")
        return await self._log(task_id(log[1], int(log[2])), request)

    def _page(self) -> Response:
        # Most masters are never looked at; those that are pay for it then.
        from ytf.web.page import POLICY, render

        view = self._view
        text = render(
            view.status(),
            version=self._version(),
            waits_for=view.waits_for(),
            spec=view.cluster_spec(),
            events=view.events(),
        )
        return Response(
            text.encode(),
            content_type="text/html; charset=utf-8",
            headers=(("Content-Security-Policy", POLICY), *_SAFE),
        )

    def _version(self) -> str:
        # What is waited for also changes with time, and with what the cluster can give.
        waits = zlib.crc32(self._view.waits_for().encode())
        return f"{self._master}.{self._view.version}.{waits:x}"

    async def _log(self, task: TaskId, request: Request) -> Response:
        place = self._view.log_place(task)
        if place is None:
            raise HttpError(404, f"{task} has written nothing: it is no task, or has not run yet")
        size = request.parameter("size") or str(USUAL_SIZE)
        if not _SIZE(size):
            raise HttpError(400, "size is a number of bytes")
        stream = request.parameter("stream") or "stderr"
        text = await self._tails.read(place, stream, int(size))
        return Response(text, content_type=_TEXT, headers=_SAFE)


def _json(value: object) -> Response:
    found = Response.json(value)
    return Response(found.body, headers=_SAFE)
