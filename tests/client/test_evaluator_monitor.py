"""The figures of evaluators in the log of the caller: changes only, within thresholds."""

from __future__ import annotations

from typing import Any

from tests.client.fakes import status
from tests.specs.usages import task_usage
from ytf.client.evaluator_monitor import EvaluatorMonitor, Thresholds
from ytf.specs.status import JobState, JobStatus, TaskState, TaskStatus


def evaluated(group: str = "evaluator", **metrics: float) -> JobStatus:
    usage = task_usage(metrics=metrics)
    task = TaskStatus(group=group, index=0, state=TaskState.RUNNING, attempt=1, usage=usage)
    return status(JobState.RUNNING, task)


def logged(thresholds: Thresholds, *statuses: Any) -> list[str]:
    lines: list[str] = []
    monitor = EvaluatorMonitor(thresholds, lines.append)
    for each in statuses:
        monitor.take(each)
    return lines


def test_a_figure_is_logged_when_it_changes() -> None:
    assert logged(
        {},
        evaluated(nb_eval_steps=1, awake_time_ratio=0.5),
        evaluated(nb_eval_steps=1, awake_time_ratio=0.5),
        evaluated(nb_eval_steps=2, awake_time_ratio=0.5, loss=3),
        evaluated("worker", nb_eval_steps=3),
        status(JobState.RUNNING),
    ) == ["evaluator:0: awake ratio 0.5, steps evaluated 1", "evaluator:0: steps evaluated 2"]


def test_thresholds_leave_figures_out() -> None:
    limits: Thresholds = {"awake_time_ratio": (0.9, None), "nb_eval_steps": (None, 5)}
    assert logged(
        limits,
        evaluated(nb_eval_steps=9, awake_time_ratio=0.5),
        evaluated(nb_eval_steps=5, awake_time_ratio=0.9),
    ) == ["evaluator:0: awake ratio 0.9, steps evaluated 5"]
