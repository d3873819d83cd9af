"""The read-only web API for people: the page of a job, the same as JSON, the ends of its logs.

The paths are relative to the page's address (:class:`~ytf.web.page_auth.PageAuth`). GET only:

==================================  ==================================================
path                                answer
==================================  ==================================================
(empty)                             the page
``api/version``                     a text that changes whenever the page does
``api/status``                      as ``ytf status --json``
``api/events``                      as ``ytf events --json``
``api/spec``                        as ``ytf spec``: the cluster spec, null before it is
``api/usage``                       how the usage of each task changed: ``{task: UsageHistory}``
``usage``                           the page's section about usage, as HTML
``metrics``                         the job and what its tasks use, for Prometheus
``tasks/<group>/<index>/log``       the end of a log, as text: ``?stream=stderr&size=32768``
==================================  ==================================================

No request changes anything. Every response has a body, because YARN's proxy
fails on one without; so there is no 304. Caches must not store responses, because
not everybody may read them.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import Protocol

from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import LogLocation
from ytf.specs.usage import UsageHistory
from ytf.web.client_api import JobView
from ytf.web.log_tails import LogTails
from ytf.web.messages import Headers, HttpError, Request, Response
from ytf.web.page_auth import PageAuth
from ytf.web.server import HttpServer

USUAL_SIZE = 32 * 1024
_LOG = re.compile(r"tasks/([A-Za-z0-9_]{1,100})/([0-9]{1,9})/log", re.ASCII).fullmatch
_SIZE = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch
_OTHER_APIS = ("/client/", "/starter/")
_TEXT = "text/plain; charset=utf-8"
_SAFETY_HEADERS: Headers = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


class JobPageView(JobView, Protocol):
    """The job as its master shows it on its page."""

    def waits_for(self) -> str:
        """What the job waits for now, in sentences; empty if it does not wait."""
        ...

    def log_location(self, task: TaskId) -> LogLocation | None:
        """Where the logs of a task are; None if there is no such task, or it has not run yet."""
        ...

    def usage_history(self, task: TaskId) -> UsageHistory | None:
        """How the usage of a task changed; None if nothing is known of it."""
        ...


class PageApi:
    """Serves the page of a job to those whom its :class:`PageAuth` admits."""

    def __init__(
        self, server: HttpServer, view: JobPageView, auth: PageAuth, *, secret: bytes
    ) -> None:
        self._view = view
        self._auth = auth
        self._tails = LogTails(secret)
        # Versions are numbers within one master, and an open page may outlive that master.
        self._master = os.urandom(4).hex()
        server.set_fallback(self._answer)

    async def _answer(self, request: Request) -> Response:
        if request.path.startswith(_OTHER_APIS):
            raise HttpError(404, f"there is nothing at {request.path}")
        try:
            if request.method != "GET":
                raise HttpError(405, "this can only be read", (("Allow", "GET"),))
            return await self._read(await self._auth.admit(request), request)
        except HttpError as error:
            # As text, because people read it.
            text = f"{error}\n".encode()
            return Response(
                text,
                status=error.status,
                content_type=_TEXT,
                headers=(*error.headers, *_SAFETY_HEADERS),
            )

    async def _read(self, path: str, request: Request) -> Response:
        match path:
            case "":
                return self._page()
            case "api/version":
                return _json(self._version())
            case "api/status":
                return _json(self._view.status_with_usage())
            case "api/events":
                return _json(self._view.events())
            case "api/spec":
                return _json(self._view.cluster_spec())
            case "api/usage":
                return _json(self._histories())
            case "usage":
                return self._usage()
            case "metrics":
                return self._metrics()
        log = _LOG(path)
        if log is None:
            raise HttpError(404, "there is no such page of this job")
        return await self._log(task_id(log[1], int(log[2])), request)

    def _page(self) -> Response:
        # Loaded when it is needed: most pages are never opened.
        from ytf.web.job_page import POLICY, render

        view = self._view
        text = render(
            view.status_with_usage(),
            version=self._version(),
            waits_for=view.waits_for(),
            spec=view.cluster_spec(),
            events=view.events(),
            history=view.usage_history,
        )
        return Response(
            text.encode(),
            content_type="text/html; charset=utf-8",
            headers=(("Content-Security-Policy", POLICY), *_SAFETY_HEADERS),
        )

    def _usage(self) -> Response:
        from ytf.web.usage_plots import usage_section

        section = usage_section(self._view.status_with_usage(), self._view.usage_history)
        return Response(
            section.encode(), content_type="text/html; charset=utf-8", headers=_SAFETY_HEADERS
        )

    def _histories(self) -> dict[TaskId, UsageHistory]:
        tasks = (task_id(task.group, task.index) for task in self._view.status().tasks)
        found = ((task, self._view.usage_history(task)) for task in tasks)
        return {task: history for task, history in found if history is not None}

    def _metrics(self) -> Response:
        from ytf.web.prometheus_text import CONTENT_TYPE, metrics

        text = metrics(self._view.status_with_usage())
        return Response(text.encode(), content_type=CONTENT_TYPE, headers=_SAFETY_HEADERS)

    def _version(self) -> str:
        # The text of waits_for also changes with time and with the load of the cluster.
        waits = zlib.crc32(self._view.waits_for().encode())
        return f"{self._master}.{self._view.version}.{waits:x}"

    async def _log(self, task: TaskId, request: Request) -> Response:
        location = self._view.log_location(task)
        if location is None:
            raise HttpError(404, f"{task} has written nothing: it is no task, or has not run yet")
        size = request.parameter("size") or str(USUAL_SIZE)
        if not _SIZE(size):
            raise HttpError(400, "size is a number of bytes")
        stream = request.parameter("stream") or "stderr"
        text = await self._tails.read(location, stream, int(size))
        return Response(text, content_type=_TEXT, headers=_SAFETY_HEADERS)


def _json(value: object) -> Response:
    found = Response.json(value)
    return Response(found.body, headers=_SAFETY_HEADERS)
