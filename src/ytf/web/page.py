"""The page of a job: what somebody wants to know who was woken up because of it.

In this order: how is it, why, which task, where is its log. It is whole
without JavaScript; with it, the page looks for news, takes over what has
changed, and shows the ends of logs in place.

Nothing is loaded from elsewhere and links are relative, as it is shown below
the path of a proxy. Of what a job was given, environment variables and commands
are never shown: they may hold what is nobody's business.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from ytf.specs.cluster import ClusterSpec
from ytf.specs.status import JobEvent, JobStatus, TaskState, TaskStatus
from ytf.web.markup import Markup, join, tag

MOST_TASKS = 500
MOST_EVENTS = 200
_FIRST = frozenset({TaskState.FAILED, TaskState.LOST})
_COLUMNS = ("Task", "State", "Attempt", "Where", "Exit", "Why", "Logs")
_COLOURS = {"RUNNING": "2da44e", "SUCCEEDED": "2da44e", "FAILED": "d1242f", "KILLED": "bf8700"}


def _asset(name: str) -> Markup:
    return Markup(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def _source(text: str) -> str:
    """How a policy names what is written in the page itself."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE = _asset("page.css")
_SCRIPT = _asset("page.js")
POLICY = "; ".join(
    (
        "default-src 'none'",
        f"style-src {_source(_STYLE)}",
        f"script-src {_source(_SCRIPT)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)
"""The page's Content-Security-Policy: what we wrote runs, and nothing else."""


def render(
    status: JobStatus,
    *,
    version: str,
    waits_for: str,
    spec: ClusterSpec | None,
    events: Sequence[JobEvent],
) -> str:
    """The whole page. ``version`` is what ``api/version`` says as long as it is up to date."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{status.state.value} · {status.name} · {status.id}"),
        tag("link", rel="icon", href=_icon(status.state.value)),
        tag("style", _STYLE),
    )
    main = tag(
        "main",
        _summary(status),
        _why(status, waits_for),
        _tasks(status),
        _cluster(spec),
        _events(events),
        data_version=version,
    )
    notice = tag("p", hidden=True, role="status", class_="notice", id="notice")
    body = tag("body", main, notice, _footer(status), tag("script", _SCRIPT))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _icon(state: str) -> str:
    """A dot in the state's colour, so that a tab tells."""
    colour = _COLOURS.get(state, "0969da")
    dot = tag("circle", cx="8", cy="8", r="7", fill=f"#{colour}")
    icon = tag("svg", dot, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 16 16")
    return f"data:image/svg+xml,{quote(icon)}"


def _summary(status: JobStatus) -> Markup:
    facts = [
        ("Job", status.id),
        ("User", status.user),
        ("Queue", status.queue),
        ("Backend", status.backend),
        ("Started", _moment(status.started)),
    ]
    if status.started is not None:
        facts.append(
            ("For" if status.finished is None else "Took", _span(status.started, status.finished))
        )
    if status.tensorboard_url is not None:
        facts.append(("TensorBoard", _link(status.tensorboard_url)))
    shown = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)
    return tag(
        "header",
        tag("h1", status.name, " ", _badge(status.state.value)),
        tag("dl", *shown, class_="facts"),
    )


def _why(status: JobStatus, waits_for: str) -> Markup:
    told = []
    if status.diagnostics:
        told.append(tag("pre", status.diagnostics, class_=f"why {status.state.value.lower()}"))
    if waits_for:
        told.append(tag("p", waits_for, class_="waits"))
    return join(*told)


def _tasks(status: JobStatus) -> Markup:
    # Those with a problem first; among equals the job's own order.
    tasks = sorted(status.tasks, key=lambda task: task.state not in _FIRST)
    rows = (_row(task) for task in tasks[:MOST_TASKS])
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in _COLUMNS)))
    parts = [
        tag("h2", "Tasks"),
        tag("p", *_counts(status.tasks), class_="counts"),
        tag("table", head, tag("tbody", *rows)),
    ]
    if len(tasks) > MOST_TASKS:
        left = f"{len(tasks) - MOST_TASKS} more tasks are in "
        parts.append(tag("p", left, tag("a", "api/status", href="api/status"), "."))
    return tag("section", *parts)


def _counts(tasks: Iterable[TaskStatus]) -> Iterable[Markup]:
    groups: dict[str, Counter[str]] = {}
    for task in tasks:
        groups.setdefault(task.group, Counter())[task.state.value] += 1
    for group, states in groups.items():
        told = ", ".join(f"{count} {state}" for state, count in states.most_common())
        yield join(tag("span", tag("b", group), f" {told}"), " ")


def _row(task: TaskStatus) -> Markup:
    name = f"{task.group}:{task.index}"
    where = task.node or task.host or ""
    if task.host is not None and task.port is not None:
        address = f"{task.host}:{task.port}"
        where = address if task.node is None else join(where, " ", tag("small", f"at {address}"))
    ended = ""
    if task.signal is not None:
        ended = f"signal {task.signal}"
    elif task.exit_code is not None:
        ended = str(task.exit_code)
    cells = (
        tag("b", name),
        _badge(task.state.value),
        str(task.attempt),
        where,
        ended,
        task.reason,
        _logs(task),
    )
    shown = (
        tag("td", cell, data_label=column, class_=None if cell else "empty")
        for column, cell in zip(_COLUMNS, cells, strict=True)
    )
    return tag("tr", *shown, id=name)


def _logs(task: TaskStatus) -> Markup:
    if task.container is None:
        return Markup("")
    below = f"tasks/{quote(task.group, safe='')}/{task.index}/log?stream="
    links = [
        tag("a", stream, href=f"{below}{stream}", data_log=True) for stream in ("stderr", "stdout")
    ]
    if task.log_url is not None and task.log_url.startswith(("http:", "https:")):
        links.append(tag("a", "all", href=task.log_url, rel="noreferrer"))
    return join(*(join(link, " ") for link in links))


def _cluster(spec: ClusterSpec | None) -> Markup:
    if spec is None:
        text = "There is none yet: not everyone is known."
    else:
        text = json.dumps(msgspec.to_builtins(spec.members), indent=2)
    told = "" if spec is None else f" generation {spec.generation}, revision {spec.revision}"
    summary = tag("summary", tag("h2", "Cluster spec"), tag("small", told))
    return tag("details", summary, tag("pre", text), id="spec")


def _events(events: Sequence[JobEvent]) -> Markup:
    newest = list(reversed(events[-MOST_EVENTS:]))
    items = (
        tag(
            "li",
            tag("time", _moment(event.at)),
            " ",
            tag("b", event.event),
            f" {event.task}" if event.task else "",
            f" {event.text}" if event.text else "",
        )
        for event in newest
    )
    parts = [tag("ol", *items, class_="events")]
    if len(events) > len(newest):
        more = f"{len(events) - len(newest)} earlier ones are in "
        parts.append(tag("p", more, tag("a", "api/events", href="api/events"), "."))
    summary = tag("summary", tag("h2", "Events"), tag("small", f" {len(events)}, newest first"))
    return tag("details", summary, *parts, id="events", open=True)


def _footer(status: JobStatus) -> Markup:
    apis = (join(tag("a", name, href=f"api/{name}"), " ") for name in ("status", "events", "spec"))
    commands = f"ytf status {status.id} · ytf logs {status.id} · ytf events {status.id}"
    return tag("footer", tag("p", "As JSON: ", *apis), tag("p", tag("code", commands)))


def _badge(state: str) -> Markup:
    return tag("span", state, class_=f"state {state.lower()}")


def _link(url: str) -> str:
    """A link to a program of the job's own, which the proxy cannot show: it drops POSTs."""
    return tag("a", url, href=url, rel="noreferrer")


def _moment(seconds: float | None) -> str:
    """In the time of the cluster's clocks, as in the logs."""
    return "" if seconds is None else time.strftime("%F %T %Z", time.localtime(seconds))


def _span(started: float, finished: float | None) -> Markup:
    """How long it took; the script goes on counting if it is not over."""
    total = max(0, int((time.time() if finished is None else finished) - started))
    text = f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"
    return tag("span", text, data_seconds=str(total) if finished is None else None)
