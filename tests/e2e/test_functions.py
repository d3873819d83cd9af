"""Functions as jobs of this machine: ``ytf.run``, from programs as users write them."""

from __future__ import annotations

import signal

from tests.e2e.harness import Ytf
from ytf.testing.waiting import eventually


def _python(ytf: Ytf, program: str, code: int = 0) -> tuple[str, str]:
    """Run a program that Python reads from stdin, as it does what is typed."""
    done = ytf.run("python", "-", stdin=program, code=code, timeout_s=200)
    return done.stdout, done.stderr


def test_what_is_typed_runs_in_the_tasks_with_local_modules(ytf: Ytf) -> None:
    package = ytf.work / "my_helpers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "lazy.py").write_text(
        "from pathlib import Path\nNAME = Path(__file__).parent.name\n"
    )
    (package / "errors.py").write_text("class OutOfLuckError(Exception):\n    pass\n")
    program = """
import logging, os, ytf
from my_helpers import errors
logging.basicConfig(level=logging.INFO)
factor = 10
class Point:
    def __init__(self, x): self.x = x
def task(base):
    import my_helpers.lazy
    index = int(os.environ["DTF_TASK_INDEX"])
    if base < 0 and index == 1:
        raise errors.OutOfLuckError(index)
    if base < 0:
        __import__("time").sleep(600)
    return Point(base + factor * index), my_helpers.lazy.NAME
job = ytf.start(task, workers=2, kwargs={"base": 3}, name="späß")
points = ytf.job(job.id).results()
print([(type(p) is Point, p.x, name) for p, name in points], job.status().name)
try:
    ytf.run(task, 2, args=[-1])
except ytf.RunFailed as error:
    print(error.task, type(error.__cause__) is errors.OutOfLuckError, error.__cause__.args)
    print(str(error).splitlines()[0].replace(error.node, "NODE"))
    print("raise errors.OutOfLuckError(index)" in error.remote_traceback or "<stdin>")
"""
    stdout, stderr = _python(ytf, program)
    assert stdout.splitlines() == [
        "[(True, 3, 'my_helpers'), (True, 13, 'my_helpers')] späß",
        "worker:1 True (1,)",
        "worker:1 on NODE raised OutOfLuckError: 1",
        "<stdin>",
    ]
    assert "INFO:ytf:shipping what the tasks cannot import: my_helpers" in stderr
    assert "INFO:ytf:worker:0 RUNNING on" in stderr


def test_big_closures_and_big_results_travel(ytf: Ytf) -> None:
    program = """
import logging, ytf
logging.basicConfig(level=logging.INFO)
def main():
    weights = bytes(50_000_000)
    (found,) = ytf.run(lambda: weights * 4, env="current")
    print(len(found), found == bytes(200_000_000))
main()
"""
    stdout, stderr = _python(ytf, program)
    assert stdout == "200000000 True\n"
    assert "<lambda> travels with 50.0 MB to each task: <lambda>'s variable weights 50.0" in stderr
    (job,) = ytf.home.glob("history/*")
    assert (job / "results" / "worker-0" / "0.value").stat().st_size > 200_000_000
    ytf.run("ytf", "rm", job.name)
    assert not job.exists()


def test_a_killed_task_has_no_result_and_ignored_failures_have_their_place(ytf: Ytf) -> None:
    program = """
import os, signal, ytf
def task():
    if os.environ["DTF_TASK_INDEX"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return "fine"
first, second = ytf.run(task, 2, on_failure="ignore", framework="none")
print(first, type(second).__name__, second.task, "SIGKILL" in str(second), second.__cause__)
try:
    ytf.run(lambda: os.kill(os.getpid(), signal.SIGKILL))
except ytf.RunFailed as error:
    print("ended FAILED: worker:0" in str(error), "SIGKILL" in str(error))
try:
    ytf.run(lambda: os._exit(0))
except ytf.RunFailed as error:
    print("left no result: its process ended before the function returned" in str(error))
"""
    stdout, _ = _python(ytf, program)
    assert stdout.splitlines() == ["fine RunFailed worker:1 True None", "True True", "True"]


def test_each_process_of_a_task_has_a_result(ytf: Ytf) -> None:
    program = """
import os, ytf
print(ytf.run(lambda: os.environ["RANK"], 2, framework="pytorch", processes=2))
"""
    assert _python(ytf, program)[0] == "['0', '1', '2', '3']\n"


def test_ctrl_c_kills_the_job_and_says_so(ytf: Ytf) -> None:
    program = """
import os, pathlib, time, ytf
def task():
    pathlib.Path(os.environ["GATE"], "runs").touch()
    time.sleep(600)
ytf.run(task)
"""
    started = ytf.start("python", "-c", program)
    eventually((ytf.gate / "runs").exists, 60, "the function runs")
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode != 0
    (job,) = ytf.home.glob("history/*")
    assert f"interrupted: killing job {job.name} (interrupt again to leave at once)" in stderr
    assert f"job {job.name} is killed" in stderr
    assert stderr.strip().endswith("KeyboardInterrupt")
    assert '"KILLED"' in (job / "record.json").read_text()


def test_nothing_is_submitted_of_what_cannot_travel(ytf: Ytf) -> None:
    program = """
import threading, ytf
lock = threading.Lock()
for options in ({}, {"env": "/nowhere"}, {"framework": "mpi"}, {"wrokers": 3}, {"memory": "x"}):
    try:
        ytf.run(lambda: lock if not options else None, **options)
    except ytf.SpecError as error:
        print(str(error))
"""
    lines = _python(ytf, program)[0].splitlines()
    assert lines[0].startswith("<lambda> cannot be sent to the tasks: <lambda>'s variable lock, a")
    assert len(lines) == 5
    assert not list(ytf.home.glob("*/local_*"))
