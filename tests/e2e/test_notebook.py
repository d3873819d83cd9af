"""A real notebook, run by a real kernel without a browser: what its cells show."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Ytf

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("notebook_driver.py")

FUNCTIONS = """
import os, threading, time
import ytf
def task():
    return 10 * int(os.environ["DTF_TASK_INDEX"])
def fail():
    raise ValueError("no data for " + os.environ["YTF_TASK"])
def sleep():
    time.sleep(600)
threads = threading.enumerate()
"""


def _run(ytf: Ytf, *cells: str) -> tuple[list[list[_Output]], list[dict[str, Any]]]:
    """Run the cells; one with the comment ``# stop`` is stopped once its job runs.

    Returns the outputs of each cell as the notebook has them at the end, and all displays.
    """
    path = ytf.work / "notebook.ipynb"
    notebook = {
        "cells": [
            {
                "id": f"cell{number}",
                "cell_type": "code",
                "source": source,
                "metadata": {"tags": ["stop"] if "# stop" in source else []},
                "execution_count": None,
                "outputs": [],
            }
            for number, source in enumerate(cells)
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")
    own = {
        name: str(ytf.work / name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    python = ROOT / ".venv-notebook" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"there is no {python}: run scripts/environment notebook")
    done = subprocess.run(
        [str(python), str(DRIVER), str(path)],
        env={**ytf.env, **own},
        cwd=ytf.work,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    executed = json.loads(path.read_text(encoding="utf-8"))
    outputs = [[_Output(each) for each in cell["outputs"]] for cell in executed["cells"]]
    return outputs, [json.loads(line) for line in done.stdout.splitlines()]


class _Output:
    """One output of a cell, as the notebook keeps it."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kind: str = kept["output_type"]
        data = kept.get("data", {})
        self.text = "".join(data.get("text/plain", ()))
        self.html = "".join(data.get("text/html", ()))
        self.error: tuple[str, str] = kept.get("ename", ""), kept.get("evalue", "")


def test_a_cell_shows_its_job_in_one_place_up_to_its_end(ytf: Ytf) -> None:
    outputs, displays = _run(
        ytf,
        FUNCTIONS,
        'ytf.run(task, workers=2, name="<b>späß</b>")',
        "ytf.run(fail)",
        'ytf.job("@last")',
        "ytf.run(task, progress=False)",
        "await ytf.aio.run(task)",
        "[each.name for each in threading.enumerate() if each not in threads]",
    )
    _, ran, failed, found, silent, awaited, threads = outputs
    display, result = ran
    assert (display.kind, result.kind) == ("display_data", "execute_result")
    assert result.text == "[0, 10]"
    assert ">SUCCEEDED<" in display.html
    assert "&lt;b&gt;späß&lt;/b&gt;" in display.html
    assert "<b>späß</b>" not in display.html
    assert "(<b>späß</b>): SUCCEEDED" in display.text
    of_run = [each for each in displays if each["cell"] == 1]
    assert len({each["id"] for each in of_run}) == 1
    first, *updates = [each["kind"] for each in of_run]
    assert first == "display_data"
    assert set(updates) == {"update_display_data"}
    assert any('">job page</a>' in each["html"] for each in of_run)

    display, error = failed
    assert ">FAILED<" in display.html
    assert "worker:0 exited with code 1" in display.html
    assert error.error[0] == "RunFailed"
    assert "no data for worker:0" in error.error[1]

    (shown,) = found
    assert ">FAILED<" in shown.html
    assert shown.text.startswith("<Job local_")
    assert [each.kind for each in silent] == ["execute_result"]
    assert ">SUCCEEDED<" in awaited[0].html
    assert awaited[1].text == "[0]"
    assert threads[0].text == "[]"


def test_the_stop_button_kills_the_job_of_a_run_and_only_ends_a_wait(ytf: Ytf) -> None:
    outputs, _ = _run(
        ytf,
        FUNCTIONS,
        "job = ytf.start(sleep)",
        "job.wait()  # stop",
        "job.status().state.value",
        "job.kill(); job.wait().status.state.value",
        "ytf.run(sleep)  # stop",
        "await ytf.aio.run(sleep)  # stop",
        "[each.state.value for each in ytf.jobs()]",
    )
    _, started, waited, goes_on, killed, ran, awaited, ended = outputs
    assert "is accepted" in started[0].html
    display, error = waited
    assert error.error[0] == "KeyboardInterrupt"
    assert "stopped waiting: job local_" in display.html
    assert goes_on[0].text == "'RUNNING'"
    assert killed[-1].text == "'KILLED'"
    for display, error in (ran, awaited):
        assert error.error[0] in ("KeyboardInterrupt", "CancelledError")
        assert ">KILLED<" in display.html
        assert "is killed" in display.html
    assert ended[0].text == "['KILLED', 'KILLED', 'KILLED']"
