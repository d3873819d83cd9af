"""What MLflow is told of a task that has ended."""

from __future__ import annotations

from tests.specs.usages import task_usage
from ytf.client.mlflow.content import task_metrics
from ytf.specs.status import TaskState, TaskStatus


def test_what_a_program_reported_is_among_the_metrics_of_its_task() -> None:
    usage = task_usage(metrics={"loss": 0.25, "attempts": 99.0})
    task = TaskStatus(
        group="evaluator", index=0, state=TaskState.SUCCEEDED, attempt=2, exit_code=0, usage=usage
    )
    found = task_metrics(task)
    assert found["loss"] == 0.25
    assert found["attempts"] == 2, "ytf's own figures keep their meaning"
    assert found["cpu_s"] == usage.cpu_s
