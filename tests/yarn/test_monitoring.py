"""What programs use, on YARN: by the commands, and through the ResourceManager's proxy."""

from __future__ import annotations

import json
from typing import Any

from tests.web.test_prometheus_text import read
from tests.yarn.driver import HERE, HOLD, Yarn
from tests.yarn.test_page import ELSEWHERE, get
from ytf.testing.waiting import eventually

MB = 1024 * 1024
BIG = "python3 -c 'import time; x = bytearray(120000000); time.sleep(1000)' & "


def worker(job: dict[str, Any]) -> dict[str, Any]:
    (found,) = job["tasks"]
    return dict(found)


def test_what_a_program_uses(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:1", gate + BIG + HERE + HOLD + "kill $!", "-m", "worker:512")
    yarn.wait_running(["worker:0"])
    yarn.wait(job, "RUNNING")

    def is_big() -> bool:
        usage = worker(yarn.status(job))["usage"]
        return usage is not None and usage["memory_bytes"] > 114 * MB

    eventually(is_big, 60, "the program's memory is seen")
    assert worker(yarn.status(job))["memory_mb"] == 512
    told = yarn.run("ytf", "top", job).stdout.splitlines()
    assert told[2].split()[0] == "worker:0"
    assert "512M" in told[2]

    url = yarn.cluster.rm_rest(f"/apps/{job}")["app"]["trackingUrl"]
    status, text = get(f"{url}metrics")
    assert status == 200
    ((labels, memory),) = read(text)["ytf_task_memory_bytes"]
    assert labels == {"job": job, "group": "worker", "index": "0"}
    assert memory > 114 * MB
    eventually(lambda: "<polyline" in get(f"{url}usage")[1], 60, "plots")
    assert json.loads(get(f"{url}api/usage")[1])["worker:0"]["series"]["memory_bytes"]
    master = yarn.cluster.rm_rest(f"/apps/{job}")["app"]["amRPCAddress"]
    assert get(f"http://{master}/metrics", source=ELSEWHERE)[0] == 302, "through the proxy only"

    yarn.open_gate()
    ended = yarn.wait(job, "SUCCEEDED")
    assert worker(yarn.status(job))["usage"]["peak_memory_bytes"] > 114 * MB
    assert ended["final_status"] == "SUCCEEDED"
    assert "PEAK%" in yarn.run("ytf", "top", job).stdout
