"""The file in which a program reports metrics: what is taken from it, and what is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from tests.specs.usages import task_usage
from ytf.functions.shipped import report_metrics as module
from ytf.functions.shipped.report_metrics import report_metrics
from ytf.specs.usage import TaskUsage, metrics_text
from ytf.starter.program_metrics import MAX_BYTES, MAX_METRICS, MetricsFile


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MetricsFile:
    path = tmp_path / "metrics"
    monkeypatch.setenv("YTF_METRICS_FILE", str(path))
    monkeypatch.setattr(module, "_reported", {})
    return MetricsFile(str(path))


def test_what_is_reported_is_read(file: MetricsFile) -> None:
    assert file.read() == {}
    report_metrics(step=1, loss=0.5)
    assert file.read() == {"step": 1.0, "loss": 0.5}
    report_metrics({"eval/loss": 0.25}, step=2)
    assert file.read() == {"step": 2.0, "loss": 0.5, "eval/loss": 0.25}
    file.remove()
    assert file.read() == {}


def test_outside_of_a_job_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YTF_METRICS_FILE", raising=False)
    report_metrics(step=1)


def test_a_report_that_cannot_be_written_is_only_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YTF_METRICS_FILE", str(tmp_path / "missing" / "metrics"))
    with pytest.warns(UserWarning, match="the metrics of this task are not shown: .*No such file"):
        report_metrics(step=1)


def test_only_numbers_with_plain_names_are_taken(file: MetricsFile) -> None:
    content = {
        "step": 3, "loss": -0.5, "name": "x", "flag": True, "none": None, "big": 10**400,
        "a b": 1, "": 1, "x" * 65: 1, "ä": 1, "a\nb": 1,
    }  # fmt: skip
    text = json.dumps(content)[:-1] + ', "nan": NaN, "infinite": Infinity}'
    Path(file.path).write_text(text)
    assert file.read() == {"step": 3.0, "loss": -0.5}
    Path(file.path).write_text(json.dumps({f"m{n}": n for n in range(2 * MAX_METRICS)}))
    found = file.read()
    assert list(found) == [f"m{n}" for n in range(MAX_METRICS)]
    usage = msgspec.to_builtins(task_usage()) | {"metrics": found}
    assert msgspec.convert(usage, TaskUsage).metrics == found


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "[" * 5000, '{"a": 1' + "0" * MAX_BYTES + "}", "\x80"]
)
def test_any_other_content_leaves_what_was_there(file: MetricsFile, content: str) -> None:
    report_metrics(step=7)
    assert file.read() == {"step": 7.0}
    Path(file.path).write_bytes(content.encode("latin-1"))
    assert file.read() == {"step": 7.0}


def test_neither_a_pipe_nor_a_link_is_read(file: MetricsFile, tmp_path: Path) -> None:
    os.mkfifo(file.path)
    assert file.read() == {}
    os.unlink(file.path)
    (tmp_path / "other").write_text('{"step": 1}')
    os.symlink(tmp_path / "other", file.path)
    assert file.read() == {}


def test_they_are_shown_in_one_line() -> None:
    assert metrics_text({"step": 1200.0, "loss": 0.123456789}) == "step 1200, loss 0.123457"
