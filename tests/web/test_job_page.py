"""The page as a browser reads it, whatever the job and its tasks are called."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

from tests.web.html_reader import Reader
from ytf.specs.ids import JobId
from ytf.specs.status import (
    ClusterSpec,
    FinalStatus,
    JobEvent,
    JobState,
    JobStatus,
    TaskState,
    TaskStatus,
)
from ytf.web.job_page import MOST_EVENTS, MOST_TASKS, POLICY, render
from ytf.web.markup import Markup, join, tag

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp;"
NODE_PAGE = "http://node7:8042/node/containerlogs/c1/ann"


def task(index: int = 0, state: TaskState = TaskState.RUNNING, **more: Any) -> TaskStatus:
    plain = TaskStatus(group="worker", index=index, state=state, attempt=1)
    return msgspec.structs.replace(plain, **more)


def status(*tasks: TaskStatus, **more: Any) -> JobStatus:
    plain = JobStatus(
        id=JobId("application_1_0001"), name="n", user="ann", queue="ml", backend="yarn",
        state=JobState.RUNNING, started=1.0, tasks=tasks,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **more)


def page(
    job: JobStatus,
    waits_for: str = "",
    spec: ClusterSpec | None = None,
    events: tuple[JobEvent, ...] = (),
) -> Reader:
    return Reader(render(job, version="v1", waits_for=waits_for, spec=spec, events=events))


def test_how_why_which_task_and_where_its_log_is() -> None:
    failed = task(
        1, TaskState.FAILED, attempt=2, exit_code=3, reason="no such dataset", node="node7:45454",
        host="node7", port=2222, container="c1", log_url=NODE_PAGE,
    )  # fmt: skip
    lost = task(2, TaskState.LOST, signal=9)
    job = status(
        task(), failed, lost,
        state=JobState.FAILED, final_status=FinalStatus.FAILED, finished=3700.0,
        diagnostics="worker:1 exited with code 3.\nLast lines", tensorboard_url="http://node7:6006/",
    )  # fmt: skip
    found = page(
        job,
        "Waiting for worker:0 to stop.",
        ClusterSpec(generation=1, revision=2, members={"worker": ("node7:2222",)}),
        (
            JobEvent(
                at=1.0, event="task-exited", task="worker:1", text="worker:1 exited with code 3"
            ),
        ),
    )
    assert "n FAILED" in found.text
    assert "worker:1 exited with code 3. Last lines" in found.text
    assert "Waiting for worker:0 to stop." in found.text
    assert "1:01:39" in found.text
    assert (
        "worker:1 FAILED 2 node7:45454 at node7:2222 3 no such dataset stderr stdout" in found.text
    )
    assert "worker:2 LOST 1 SIGKILL" in found.text
    assert "task-exited worker:1 exited with code 3" in found.text
    assert '"node7:2222"' in found.text
    rows = [attributes["id"] for name, attributes in found.elements if name == "tr" and attributes]
    assert rows == ["worker:1", "worker:2", "worker:0"], "what is wrong comes first"
    assert "tasks/worker/1/log?stream=stderr" in found.links
    assert {NODE_PAGE, "http://node7:6006/"} <= set(found.links)
    assert not any("worker/0" in link for link in found.links), "it has no container, so no log"


def test_what_others_have_named_is_text_and_nothing_else() -> None:
    hostile = task(
        group=HOSTILE, reason=HOSTILE, node=HOSTILE, host=HOSTILE, port=1, container=HOSTILE,
        log_url=f"javascript:{HOSTILE}",
    )  # fmt: skip
    harmless = page(
        status(task(container="c")),
        "waits",
        ClusterSpec(generation=1, revision=1, members={}),
        (JobEvent(at=1.0, event="e"),),
    )
    found = page(
        status(hostile, name=HOSTILE, user=HOSTILE, queue=HOSTILE, diagnostics=HOSTILE),
        HOSTILE,
        ClusterSpec(generation=1, revision=1, members={HOSTILE: (HOSTILE,)}),
        (JobEvent(at=1.0, event=HOSTILE, task=HOSTILE, text=HOSTILE),),
    )
    assert {name for name, _ in found.elements} - {name for name, _ in harmless.elements} <= {
        "pre", "small",
    }  # fmt: skip
    assert [name for name, _ in found.elements].count("script") == 1
    assert not any(key.startswith("on") for _, attributes in found.elements for key in attributes)
    assert not any(link.startswith("javascript") for link in found.links)
    assert found.text.count("<script>alert(1)</script>") >= 9


def test_nothing_is_loaded_from_elsewhere_and_the_policy_lets_only_ours_run() -> None:
    found = page(status(task(container="c1", log_url="file:///logs/worker-0/1")))
    assert not any("src" in attributes for _, attributes in found.elements)
    assert not any("style" in attributes for _, attributes in found.elements)
    assert not any(link.startswith("/") or ":" in link for link in found.links)
    (icon,) = [attributes["href"] for name, attributes in found.elements if name == "link"]
    assert icon is not None
    assert icon.startswith("data:")
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(found.inline[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in POLICY
        assert "url(" not in found.inline[kind]
    assert POLICY.startswith("default-src 'none';")
    assert "unsafe" not in POLICY


def test_a_page_stays_small_however_big_the_job() -> None:
    many = [task(index) for index in range(MOST_TASKS + 20)]
    events = tuple(JobEvent(at=1.0, event="e", text=f"number {n}.") for n in range(1000))
    found = page(status(*many, task(9999, TaskState.FAILED)), events=events)
    rows = [attributes for name, attributes in found.elements if name == "tr" and attributes]
    assert len(rows) == MOST_TASKS
    assert rows[0]["id"] == "worker:9999", "the one that matters is not among those left out"
    assert "21 more tasks are in api/status" in found.text
    assert f"worker {MOST_TASKS + 20} RUNNING, 1 FAILED" in found.text
    assert "number 999." in found.text
    assert "number 799." not in found.text
    assert f"{1000 - MOST_EVENTS} earlier ones are in api/events" in found.text


def test_text_is_escaped_and_markup_is_not() -> None:
    inner = tag("b", "<script>", "&")
    assert inner == "<b>&lt;script&gt;&amp;</b>"
    assert tag("p", inner, "<") == "<p><b>&lt;script&gt;&amp;</b>&lt;</p>"
    assert join("<", Markup("<br>")) == "&lt;<br>"


def test_attributes_are_escaped_named_and_left_out() -> None:
    made = tag("a", href='"><script>', class_="x", data_log=True, id=None, hidden=False)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" class="x" data-log></a>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
