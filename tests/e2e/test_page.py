"""The page of a local job: its address, what it shows, the logs it reads from the starters."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from tests.e2e.harness import HERE, HOLD, Ytf


def get(url: str) -> tuple[int, str]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=10)
    try:
        connection.request("GET", f"{place.path}?{place.query}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_job_shows_itself_to_whoever_has_its_address(ytf: Ytf) -> None:
    command = "TOKEN=very-secret; echo out; echo problem >&2; " + HERE + HOLD
    job = ytf.submit("worker:2", command, "-n", "a <b>job</b>")
    job.wait_running("worker:0", "worker:1")
    url = job.status().tracking_url
    assert url is not None
    code, page = get(url)
    assert code == 200
    assert "a &lt;b&gt;job&lt;/b&gt;" in page
    assert 'href="tasks/worker/1/log?stream=stderr"' in page
    assert "very-secret" not in page, "commands are nobody's business"
    assert get(f"{url}tasks/worker/1/log?stream=stderr") == (200, "problem\n")
    assert get(f"{url}tasks/worker/0/log?stream=stdout") == (200, "out\n")
    secret = (ytf.home / "jobs" / job.id / "secret").read_text()
    for path in ("", "api/status", "api/events", "api/spec", "api/version"):
        code, text = get(f"{url}{path}")
        assert code == 200
        assert secret not in text
    place = urlsplit(url)
    assert get(f"http://{place.netloc}/")[0] == 404
    assert get(f"http://{place.netloc}/{'0' * 32}/api/status")[0] == 404
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert job.status().tracking_url is None
