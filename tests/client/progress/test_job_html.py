from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from tests.client.fakes import JOB, FakeHandle, status, task
from tests.specs.usages import task_usage
from ytf.client.job import Job
from ytf.client.progress.job_html import job_html
from ytf.errors import UnreachableError
from ytf.specs.status import JobState, JobStatus, TaskState, with_notes

HOSTILE = '"><script>alert(1)</script>\u202e'


class Reader(HTMLParser):
    """The tags, links and texts of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_text_of_others_is_text_and_only_web_pages_are_linked() -> None:
    job = status(
        JobState.STARTING,
        task("worker", 0, TaskState.PENDING, host=HOSTILE, reason=HOSTILE),
        diagnostics=HOSTILE,
    )
    job = msgspec.structs.replace(
        job,
        name=HOSTILE,
        tracking_url=f"http://n1/{HOSTILE}",
        tensorboard_url="javascript:alert(1)",
    )
    found = Reader(job_html(job, [HOSTILE]))
    assert found.tags <= {"div", "b", "span", "a", "table", "tr", "th", "td"}
    assert found.links == [f"http://n1/{HOSTILE}"]
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert found.texts.count(shown) == 5  # name, why it waits, where, ended, the sentence


def test_why_it_waits_what_tasks_use_and_the_first_cause_are_shown() -> None:
    waits = status(JobState.SUBMITTED, diagnostics="the queue is full")
    assert "the queue is full" in Reader(job_html(waits)).texts
    running = status(
        JobState.RUNNING,
        task("worker", 0, TaskState.RUNNING, usage=task_usage()),
        task("worker", 1, TaskState.RUNNING, attempt=3),
        diagnostics=with_notes("secret", ["the disk is full"]),
    )
    texts = Reader(job_html(running)).texts
    assert {"note: the disk is full", "50%", "100M", "3", "2 RUNNING"} <= set(texts)
    assert "secret" not in "".join(texts)
    failed = status(
        JobState.FAILED, task("worker", 0, TaskState.FAILED), diagnostics="worker:0 fell\nits lines"
    )
    texts = Reader(job_html(failed)).texts
    assert texts[texts.index("worker:0 fell") + 1] == f"`ytf logs {JOB}` shows what the tasks wrote"


def test_of_a_large_group_only_failures_have_lines() -> None:
    tasks = [task("worker", n, TaskState.RUNNING) for n in range(1000)]
    tasks[500:560] = [task("worker", n, TaskState.FAILED, exit_code=1) for n in range(500, 560)]
    html = job_html(status(JobState.RUNNING, *tasks))
    texts = Reader(html).texts
    assert "940 RUNNING, 60 FAILED" in texts
    assert texts.count("exit code 1") == 16
    assert len(html) < 20_000


def test_what_has_a_colour_has_its_ground_so_that_any_theme_is_readable() -> None:
    html = job_html(status(JobState.RUNNING, task("worker", 0, TaskState.FAILED)))
    coloured = re.findall(r'style="([^"]*[ ;"]?color:#[^"]*)"', html)
    assert coloured
    assert all("background:#" in each or "border-left:" in each for each in coloured)


class Silent(FakeHandle):
    """The handle of a job whose cluster does not answer."""

    def status(self) -> JobStatus:
        raise UnreachableError("no <answer>")


@pytest.mark.parametrize("handle", [FakeHandle(status(JobState.RUNNING)), Silent()])
def test_a_job_shows_itself_whatever_happens(handle: FakeHandle) -> None:
    texts = Reader(Job(handle)._repr_html_()).texts
    assert JOB in " ".join(texts)
    assert ("no <answer>" in texts) is isinstance(handle, Silent)
