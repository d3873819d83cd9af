"""The page of a job as people find it: from the ResourceManager's page, through its proxy."""

from __future__ import annotations

import http.client
import json
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tests.web.html_reader import Reader
from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.testing.waiting import eventually

ELSEWHERE = ("127.0.0.2", 0)
"""An address of this machine at which the ResourceManager is not."""


def get(url: str, method: str = "GET", source: tuple[str, int] | None = None) -> tuple[int, str]:
    """An answer's status, and its text or where it leads to."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=20, source_address=source)
    try:
        connection.request(method, f"{place.path}?{place.query}" if place.query else place.path)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, answer.headers.get("Location", text)
    finally:
        connection.close()


def test_the_link_of_the_resourcemanager_leads_to_the_job(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:2", gate + "echo out; echo problem >&2; " + HERE + HOLD)
    yarn.wait_running(["worker:0", "worker:1"])
    running = yarn.wait(job, "RUNNING")
    application = yarn.cluster.rm_rest(f"/apps/{job}")["app"]
    url = application["trackingUrl"]
    assert running["tracking_url"] == url

    # Through the proxy.
    status, text = get(url)
    page = Reader(text)
    assert status == 200
    assert f"{job} User" in page.text
    assert "worker:1 RUNNING 1" in page.text
    node_page = next(task["log_url"] for task in running["tasks"] if task["index"] == 1)
    assert {"tasks/worker/1/log?stream=stderr", node_page} <= set(page.links)
    told = json.loads(get(f"{url}api/status")[1])
    # Of these YARN knows better than the master, and the page asks nobody else.
    yarns = {key: told[key] for key in ("tracking_url", "queue", "started")}
    for each in (*told["tasks"], *running["tasks"]):
        each.pop("usage")  # of different moments
    assert told == {**running, **yarns}
    assert urlsplit(told["tracking_url"]).path == urlsplit(url).path
    assert json.loads(get(f"{url}api/spec")[1])["members"].keys() == {"worker"}
    assert "job-finished" not in get(f"{url}api/events")[1]
    assert get(f"{url}tasks/worker/1/log?stream=stderr") == (200, "problem\n")
    assert get(f"{url}tasks/worker/7/log")[0] == 404
    assert get(url, "POST")[0] == 405

    # Not past it.
    master = f"http://{application['amRPCAddress']}"
    status, there = get(f"{master}/api/status", source=ELSEWHERE)
    assert (status, urlsplit(there).path) == (302, f"/proxy/redirect/{job}/api/status")
    assert json.loads(get(there, source=ELSEWHERE)[1])["id"] == job
    memory = Path("/proc", str(yarn.master(job)), "status").read_text()
    resident_kb = int(memory.partition("VmRSS:")[2].split()[0])
    assert resident_kb < 60 * 1024, "a master that is looked at stays small"

    # After the end.
    yarn.open_gate()
    yarn.wait(job, "SUCCEEDED")
    eventually(lambda: yarn.cluster.rm_rest(f"/apps/{job}")["app"]["state"] == "FINISHED", 30)
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert urlsplit(answer.url).path == f"/cluster/app/{job}"
        said = Reader(answer.read().decode()).text
    assert "All tracked tasks succeeded." in said
    assert f"ytf status {job} · ytf logs {job} · ytf events {job}" in said
