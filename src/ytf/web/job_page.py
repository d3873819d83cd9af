"""Renders the HTML page of a job: its state, why, tasks, links to logs, plots, events.

The page is complete without JavaScript. With it, the page updates itself and
shows the ends of logs in place. It loads nothing from other servers, and its
links are relative, because a proxy may serve it below a path of its own. It
never shows environment variables or commands of the job: they may hold secrets.
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

from ytf.machine.diagnostics import signal_name
from ytf.specs.status import ClusterSpec, JobEvent, JobStatus, TaskState, TaskStatus
from ytf.web.markup import Markup, join, tag
from ytf.web.usage_plots import FindHistory, usage_section

MOST_TASKS = 500
MOST_EVENTS = 200
_FIRST = frozenset({TaskState.FAILED, TaskState.LOST})
_COLUMNS = ("Task", "State", "Attempt", "Where", "Exit", "Why", "Logs")
_COLOURS = {"RUNNING": "2da44e", "SUCCEEDED": "2da44e", "FAILED": "d1242f", "KILLED": "bf8700"}


def _asset(name: str) -> Markup:
    return Markup(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def _source(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style: by its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE = _asset("job_page.css")
_SCRIPT = _asset("job_page.js")
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
"""The page's Content-Security-Policy: only our own script and style are allowed."""


def render(
    status: JobStatus,
    *,
    version: str,
    waits_for: str,
    spec: ClusterSpec | None,
    events: Sequence[JobEvent],
    history: FindHistory = lambda task: None,
) -> str:
    """The whole page. It is up to date as long as ``api/version`` returns ``version``.

    What programs use is not part of the version: ``usage`` has that section alone.
    """
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
        usage_section(status, history),
        _cluster(spec),
        _events(events),
        data_version=version,
    )
    notice = tag("p", hidden=True, role="status", class_="notice", id="notice")
    body = tag("body", main, notice, _footer(status), tag("script", _SCRIPT))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _icon(state: str) -> str:
    """An icon for the browser's tab: a dot in the colour of the state."""
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
    parts = []
    if status.diagnostics:
        parts.append(tag("pre", status.diagnostics, class_=f"why {status.state.value.lower()}"))
    if waits_for:
        parts.append(tag("p", waits_for, class_="waits"))
    return join(*parts)


def _tasks(status: JobStatus) -> Markup:
    # Failed tasks first, the others in the order of the job.
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
        counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
        yield join(tag("span", tag("b", group), f" {counts}"), " ")


def _row(task: TaskStatus) -> Markup:
    name = f"{task.group}:{task.index}"
    where = task.node or task.host or ""
    if task.host is not None and task.port is not None:
        address = f"{task.host}:{task.port}"
        where = address if task.node is None else join(where, " ", tag("small", f"at {address}"))
    ended = ""
    if task.signal is not None:
        ended = signal_name(task.signal)
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
        text = "There is none yet: not every task has registered."
    else:
        text = json.dumps(msgspec.to_builtins(spec.members), indent=2)
    label = "" if spec is None else f" generation {spec.generation}, revision {spec.revision}"
    summary = tag("summary", tag("h2", "Cluster spec"), tag("small", label))
    return tag("details", summary, tag("pre", text), id="spec")


def _events(events: Sequence[JobEvent]) -> Markup:
    newest = list(reversed(events[-MOST_EVENTS:]))
    items = (
        tag(
            "li",
            tag("time", _moment(event.at)),
            " ",
            tag("b", event.event),
            f" {event.text}",
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
    names = ("status", "events", "spec", "usage")
    apis = (join(tag("a", name, href=f"api/{name}"), " ") for name in names)
    commands = f"ytf status {status.id} · ytf logs {status.id} · ytf events {status.id}"
    return tag(
        "footer",
        tag("p", "As JSON: ", *apis),
        tag("p", "For Prometheus: ", tag("a", "metrics", href="metrics")),
        tag("p", tag("code", commands)),
    )


def _badge(state: str) -> Markup:
    return tag("span", state, class_=f"state {state.lower()}")


def _link(url: str) -> str:
    """A link to a server of the job itself. YARN's proxy cannot show it: it drops POSTs."""
    return tag("a", url, href=url, rel="noreferrer")


def _moment(seconds: float | None) -> str:
    """A time in the master's time zone, as in the logs."""
    return "" if seconds is None else time.strftime("%F %T %Z", time.localtime(seconds))


def _span(started: float, finished: float | None) -> Markup:
    """The duration of the job; the script counts on if it has not ended."""
    total = max(0, int((time.time() if finished is None else finished) - started))
    text = f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"
    return tag("span", text, data_seconds=str(total) if finished is None else None)
