"""The display of a notebook, with a kernel that only keeps what is shown. A real one is in e2e."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.client.fakes import JOB, status, task
from ytf.backends.api import PassingNotice
from ytf.client.follow import Change
from ytf.client.progress import notebook
from ytf.client.progress.notebook import NotebookDisplay, in_notebook
from ytf.client.progress.reporter import open_reporter
from ytf.specs.ids import TaskId
from ytf.specs.status import JobState, TaskState

RUNNING = status(JobState.RUNNING, task("worker", 0, TaskState.RUNNING))


class Cell:
    """The outputs of a cell, and how often each was drawn."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, str]] = {}
        self.drawings = 0

    def display(self, data: dict[str, str], *, raw: bool, display_id: str) -> None:
        assert raw
        assert display_id not in self.outputs
        self.outputs[display_id] = data
        self.drawings += 1

    def update_display(self, data: dict[str, str], *, raw: bool, display_id: str) -> None:
        assert raw
        assert display_id in self.outputs
        self.outputs[display_id] = data
        self.drawings += 1

    @property
    def text(self) -> str:
        (output,) = self.outputs.values()
        return output["text/plain"]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    functions: Any = ModuleType("IPython.display")
    functions.display, functions.update_display = cell.display, cell.update_display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", functions)
    monkeypatch.setattr(notebook, "_LEAST_PAUSE_S", 0.0)
    return cell


def test_a_notebook_is_known_by_its_kernel(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: object())
    assert not in_notebook()  # ipython in a terminal
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not in_notebook()  # a program that imports it
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


def test_one_output_from_the_first_sentence_to_the_end(cell: Cell) -> None:
    with open_reporter(None) as reporter:
        reporter.notify("packing numpy")
        reporter.notify(PassingNotice("uploading 10 %"))
        reporter.notify(PassingNotice("uploading 20 %"))
        assert cell.text == "packing numpy\nuploading 20 %"
        reporter.update(Change(None, RUNNING, {TaskId("worker:0"): "exit code 1"}))
        assert cell.text.splitlines()[1:] == [
            "worker:0  RUNNING  1",
            "worker:0 RUNNING: exit code 1",
        ]
        reporter.update(Change(RUNNING, status(JobState.FAILED, diagnostics="it broke"), {}))
    assert cell.text.splitlines()[1] == "it broke"
    assert f"job {JOB} (TensorFlow): FAILED" in cell.text


def test_nothing_is_left_of_what_passes_and_silence_shows_nothing(cell: Cell) -> None:
    with open_reporter(None) as reporter:
        reporter.notify(PassingNotice("uploading 10 %"))
        reporter.notify("job is accepted")
    assert cell.text == "job is accepted"
    cell.outputs.clear()
    with open_reporter(None):
        pass
    with open_reporter(False) as reporter:
        reporter.notify("packing")
    assert cell.outputs == {}


def test_a_job_that_changes_fast_is_drawn_seldom_but_at_its_end(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "_LEAST_PAUSE_S", 3600.0)
    monkeypatch.setattr("time.monotonic", lambda: 10_000.0)
    display = NotebookDisplay()
    for _ in range(100):
        display.update(Change(RUNNING, RUNNING, {}))
    assert cell.drawings == 1
    display.conclude(status(JobState.SUCCEEDED))
    assert "SUCCEEDED" in cell.text
