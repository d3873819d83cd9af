"""A simulated cluster in which a test says what happens to each task."""

from __future__ import annotations

from tests.machine.world import NODES, World
from ytf.machine import events as e
from ytf.specs.ids import ContainerId, TaskId
from ytf.specs.job import JobSpec, OnFailure, TaskGroupSpec
from ytf.specs.status import FinalStatus, TaskState


def job(text: str = "ps:1,worker:2", **changes: object) -> JobSpec:
    groups = {}
    for part in text.split(","):
        name, _, count = part.partition(":")
        groups[name] = TaskGroupSpec(count=int(count))
    fields: dict[str, object] = {"groups": groups, "command": "true", **changes}
    return JobSpec(**fields)  # type: ignore[arg-type]  # a test's short form


def policy(on_failure: OnFailure, text: str = "ps:1,worker:2", **fields: object) -> JobSpec:
    """All groups with one policy."""
    groups = {
        name: TaskGroupSpec(count=group.count, on_failure=on_failure, **fields)  # type: ignore[arg-type]
        for name, group in job(text).groups.items()
    }
    return JobSpec(groups=groups, command="true")


class Scenario(World):
    """A simulated cluster in which a test says what happens, by task."""

    def at(self, task: str) -> ContainerId:
        return next(k for k, s in self.starters.items() if s.task == task)

    def task(self, task: str) -> TaskState:
        return self.machine.state.tasks[TaskId(task)].state

    def attempt(self, task: str) -> int:
        return self.machine.state.tasks[TaskId(task)].attempt

    def allocate_all(self) -> None:
        for request in list(self.open_requests):
            self.allocate(request, NODES[0])

    def register_all(self) -> None:
        for starter in list(self.starters.values()):
            if not starter.registered and not starter.told_to_stop:
                self.register(starter)

    def run_all(self) -> None:
        for starter in list(self.starters.values()):
            if starter.registered and starter.program == "none" and self.may_run(starter):
                self.run(starter)

    def start(self) -> Scenario:
        self.allocate_all()
        self.register_all()
        self.run_all()
        return self

    def ends(self, task: str, code: int = 0, port_lost: bool = False) -> None:
        self.exit(self.starters[self.at(task)], code, port_lost)

    def container_ends(self, task: str, cause: e.Cause, signal: int | None = 9) -> None:
        self.complete(self.starters[self.at(task)], cause, signal)

    def stop_all(self) -> None:
        for starter in list(self.starters.values()):
            if starter.told_to_stop:
                self.complete(starter, e.Cause.RELEASED)

    def outcome(self) -> FinalStatus:
        self.stop_all()
        assert self.finished is not None, self.machine.state
        return self.finished.status

    def text(self) -> str:
        assert self.finished is not None
        return self.finished.diagnostics
