"""A job as HTML, for notebooks: one element without scripts, readable on light and dark grounds.

Text has the colour of the notebook's theme; what has a colour of its own has its ground, too.
Styles are inline, because notebooks are shown in many places that leave style sheets out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ytf.client.status_text import (
    count_states,
    describe_end,
    is_waiting,
    span,
    task_headers,
    task_rows,
    tasks_by_group,
)
from ytf.specs.status import JobStatus, TaskState, TaskStatus
from ytf.terminal_text import printable
from ytf.web.markup import Markup, join, tag

_GREEN, _RED, _AMBER, _BLUE, _GREY = "#1a7f37", "#cf222e", "#8a5a00", "#0860ca", "#656d76"
"""White text is readable on each (contrast above 4.5)."""
_COLOURS = {
    "RUNNING": _BLUE,
    "SUCCEEDED": _GREEN,
    "FAILED": _RED,
    "LOST": _RED,
    "KILLED": _AMBER,
}
_BADGE = "color:#fff;border-radius:3px;padding:0 6px;font-size:85%;font-weight:600"
_STATES = frozenset(state.value for state in TaskState)
_QUIET = "opacity:.75"
_CELL = "text-align:left;padding:1px 16px 1px 0;border:0;background:none"
_TABLE = "border:0;border-collapse:collapse;margin:4px 0;font-size:90%"
_BAR = "display:flex;height:6px;width:160px;border-radius:3px;overflow:hidden;margin:2px 0"
_TEXT = "margin:4px 0;padding:0;white-space:pre-wrap;background:none;color:inherit;font-size:90%"


def job_html(status: JobStatus | None, notices: Sequence[str] = ()) -> Markup:
    """A job, and sentences about it; None if there is none yet, only sentences."""
    colour = _GREY
    parts: list[Markup] = []
    if status is not None:
        colour = _COLOURS.get(status.state.value, _GREY)
        parts = [_head(status), _why(status), _links(status), _groups(status), _tasks(status)]
    if notices:
        parts.append(tag("div", *map(_line, notices), style=_QUIET))
    style = f"border-left:4px solid {colour};padding:2px 0 2px 12px;line-height:1.5"
    return tag("div", *parts, style=style)


def _head(status: JobStatus) -> Markup:
    took = span(status.started, status.finished)
    about = f"{took} · {status.id}" if took else status.id
    return tag(
        "div",
        tag("b", printable(status.name)),
        " ",
        _badge(status.state.value),
        " ",
        tag("span", printable(about), style=_QUIET),
    )


def _badge(state: str) -> Markup:
    return tag("span", state, style=f"background:{_COLOURS.get(state, _GREY)};{_BADGE}")


def _why(status: JobStatus) -> Markup:
    """Why it waits or ended so, and what its user should know."""
    if status.state.is_final:
        lines = describe_end(status)
    else:
        lines = status.diagnostics.splitlines() if is_waiting(status) else status.notes
    return join(*map(_line, lines))


def _line(text: str) -> Markup:
    return tag("div", printable(text), style=_TEXT)


def _links(status: JobStatus) -> Markup:
    if status.state.is_final:
        return Markup("")
    known = (("job page", status.tracking_url), ("TensorBoard", status.tensorboard_url))
    links = [
        tag("a", name, href=url, target="_blank", rel="noreferrer noopener")
        for name, url in known
        # Of others: no link may be a script.
        if url is not None and url.startswith(("http://", "https://"))
    ]
    return tag("div", *(join(" · " if each else "", link) for each, link in enumerate(links)))


def _groups(status: JobStatus) -> Markup:
    """A bar for each group of several tasks: how many are in which state."""
    return join(
        *(
            tag("div", tag("b", group), f" {count_states(tasks)}", _bar(tasks))
            for group, tasks in tasks_by_group(status).items()
            if len(tasks) > 1
        )
    )


def _bar(tasks: Sequence[TaskStatus]) -> Markup:
    counts = Counter(_COLOURS.get(task.state.value, _GREY) for task in tasks)
    parts = (
        tag("div", style=f"flex:{counts[each]};background:{each}")
        for each in (_GREEN, _BLUE, _RED, _AMBER, _GREY)
        if counts[each]
    )
    return tag("div", *parts, style=_BAR)


def _tasks(status: JobStatus) -> Markup:
    rows = task_rows(status, counts=False)
    if not rows:
        return Markup("")
    head = (
        tag("th", name, style=f"{_CELL};font-weight:normal;{_QUIET}")
        for name in task_headers(status)
    )
    body = (tag("tr", *(_cell(cell) for cell in row), style="background:none") for row in rows)
    return tag("table", tag("tr", *head, style="background:none"), *body, style=_TABLE)


def _cell(text: str) -> Markup:
    shown = _badge(text) if text in _STATES else printable(text)
    return tag("td", shown, style=_CELL)
