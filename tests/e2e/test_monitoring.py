"""What programs use, from the processes to every place where users read it."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.e2e.harness import FOREVER, HERE, HOLD, Job, Ytf, kill, task
from tests.e2e.test_page import get
from tests.web.html_reader import Reader
from tests.web.test_prometheus_text import read
from ytf.specs.status import TaskStatus
from ytf.specs.usage import TaskUsage
from ytf.testing.waiting import eventually

MB = 1024 * 1024

GREEDY = """
import os, subprocess, sys, threading, time
big = bytearray(150 * 1024 * 1024)
for _ in range(5):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
burn = "import time\\nwhile time.process_time() < 1: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
with open("written", "wb") as file:
    file.write(bytes(16 * 1024 * 1024)); file.flush(); os.fsync(file.fileno())
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
open(os.path.join(os.environ["GATE"], "greedy"), "w").close()
while not os.path.exists(os.path.join(os.environ["GATE"], "go")): time.sleep(0.05)
child.kill(); child.wait()
"""


def greedy(ytf: Ytf) -> str:
    """A command that uses memory, threads, processor time of ended children, and the disk."""
    (ytf.work / "greedy.py").write_text(GREEDY)
    return f"exec python3 {ytf.work / 'greedy.py'}"


def usage_when(job: Job, name: str, fits: Callable[[TaskUsage], bool]) -> TaskUsage:
    """Wait until ``ytf status --json`` shows a usage of a task that fits."""
    found: list[TaskUsage] = []

    def look() -> bool:
        usage = task(job.status(), name).usage
        found.extend([] if usage is None else [usage])
        return usage is not None and fits(usage)

    eventually(look, 60, lambda: f"a usage of {name} that fits, not {found[-1:]}")
    return found[-1]


def test_what_a_program_uses_is_shown_while_it_runs_and_kept(ytf: Ytf) -> None:
    groups = {
        "worker": {"count": 1, "command": greedy(ytf), "resources": {"memory": 2048}},
        "ps": {"count": 1, "command": HERE + "exec sleep 1000"},
    }
    job = ytf.submit_spec(groups=groups)
    ytf.told("greedy")
    used = usage_when(
        job, "worker:0", lambda u: u.disk_written_bytes >= 16 * MB and u.cpu_cores > 0.05
    )
    assert used.attempt == 1
    assert used.memory_bytes > 150 * MB
    assert used.peak_memory_bytes >= used.memory_bytes
    assert used.threads >= 7
    assert used.cpu_s > 1.0, "also of the child that has ended"
    assert used.processes == 2
    assert used.network_received_bytes is not None
    idle = usage_when(job, "ps:0", lambda u: u.processes == 1)
    assert idle.cpu_s < 1.0
    assert idle.memory_bytes < 50 * MB

    # ytf top: highest first, once in a pipe.
    text = ytf.run("ytf", "top", job.id).stdout.splitlines()
    assert [line.split()[0] for line in text[2:]] == ["worker:0", "ps:0"]
    assert text[2].split()[5] == "2.0G", "what it asked for"
    told = json.loads(ytf.run("ytf", "top", job.id, "--json").stdout)
    assert told["tasks"][0]["usage"]["memory_bytes"] > 150 * MB

    # The page, its plots, the history, Prometheus.
    url = job.status().tracking_url
    assert url is not None
    page = Reader(get(url)[1])
    assert "of 2.0G" in page.text
    eventually(lambda: "<polyline" in get(f"{url}usage")[1], 60, "plots")
    history = json.loads(get(f"{url}api/usage")[1])["worker:0"]
    assert max(v for v in history["series"]["memory_bytes"] if v is not None) > 150 * MB
    metrics = read(get(f"{url}metrics")[1])
    who = {"job": job.id, "group": "worker", "index": "0"}
    memory = {labels["group"]: value for labels, value in metrics["ytf_task_memory_bytes"]}
    assert memory["worker"] > 150 * MB > memory["ps"]
    assert (who, 2048 * MB) in metrics["ytf_task_memory_asked_bytes"]
    assert get(url.replace(url.split("/")[3], "0" * 32) + "metrics")[0] == 404

    ytf.open_gate()
    ended = job.end("SUCCEEDED")
    after = task(ended, "worker:0").usage
    assert after is not None
    assert after.peak_memory_bytes > 150 * MB
    assert after.cpu_s >= used.cpu_s
    assert (after.memory_bytes, after.processes, after.cpu_cores) == (0, 0, 0)
    stopped = task(ended, "ps:0").usage
    assert stopped is not None
    assert stopped.peak_memory_bytes >= idle.memory_bytes, "a program that was stopped, too"
    text = ytf.run("ytf", "top", job.id).stdout.splitlines()
    assert "PEAK%" in text[1]
    assert "asked for" not in ended.diagnostics, "too short to judge"


def test_a_short_program_that_no_sample_saw_has_figures(ytf: Ytf) -> None:
    burn = (
        "python3 -c 'import time\nx = bytearray(80000000)\nwhile time.process_time() < 0.3: pass'"
    )
    used = task(ytf.submit("worker:1", burn).end("SUCCEEDED"), "worker:0").usage
    assert used is not None
    assert used.cpu_s >= 0.3
    assert used.peak_memory_bytes > 76 * MB


def test_a_new_master_knows_peaks_and_what_ended_before_it(ytf: Ytf) -> None:
    groups = {
        "chief": {"count": 1, "command": HERE + HOLD},
        "worker": {"count": 1, "command": greedy(ytf).replace("exec ", HERE)},
        "ps": {"count": 1, "command": HERE + FOREVER},
    }
    job = ytf.submit_spec(groups=groups)
    ytf.told("greedy")
    before = usage_when(job, "worker:0", lambda u: u.disk_written_bytes >= 16 * MB)
    kill(job.master())
    after = usage_when(job, "worker:0", lambda u: u.elapsed_s > before.elapsed_s)
    assert after.peak_memory_bytes >= before.peak_memory_bytes
    assert after.cpu_s >= before.cpu_s
    ytf.open_gate()
    ended = job.end("SUCCEEDED")

    def known(name: str) -> TaskStatus:
        found = task(ended, name)
        assert found.usage is not None, name
        return found

    for name in ("chief:0", "worker:0", "ps:0"):
        known(name)
    worker = known("worker:0").usage
    assert worker is not None
    assert worker.peak_memory_bytes > 150 * MB


def test_metrics_that_a_program_reports_are_shown_everywhere_and_kept(ytf: Ytf) -> None:
    report = """echo '{"step": 3, "loss": 0.25, "name": "x"}' > "$YTF_METRICS_FILE"; """
    groups = {"worker": {"count": 1, "command": report + HOLD}}
    job = ytf.submit_spec(groups=groups)
    usage_when(job, "worker:0", lambda usage: usage.metrics == {"step": 3.0, "loss": 0.25})
    assert "worker:0  step 3, loss 0.25" in ytf.run("ytf", "status", job.id).stdout
    url = str(job.status().tracking_url)
    found = read(get(f"{url}metrics")[1])
    labels = {"job": job.id, "group": "worker", "index": "0", "metric": "loss"}
    assert (labels, 0.25) in found["ytf_task_metric"]
    assert "step 3, loss 0.25" in Reader(get(url)[1]).text
    ytf.open_gate()
    kept = task(job.end("SUCCEEDED"), "worker:0").usage
    assert kept is not None
    assert kept.metrics == {"step": 3.0, "loss": 0.25}
