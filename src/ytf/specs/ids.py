"""Types for ids: of jobs, tasks, containers, nodes and requests."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
TaskId = NewType("TaskId", str)
"""``group:index``, as users write it: ``worker:0``."""
ContainerId = NewType("ContainerId", str)
NodeId = NewType("NodeId", str)
RequestId = NewType("RequestId", str)
"""Names one request for one container; a task that loses its container makes a new one."""


def task_id(group: str, index: int) -> TaskId:
    """The id of one member of a group."""
    return TaskId(f"{group}:{index}")


def group_of(task: TaskId) -> str:
    """The group a task belongs to."""
    return task.rpartition(":")[0]


def index_of(task: TaskId) -> int:
    """A task's index in its group."""
    return int(task.rpartition(":")[2])
