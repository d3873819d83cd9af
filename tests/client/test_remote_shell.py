from __future__ import annotations

import pytest

from tests.client.fakes import status, task
from ytf.client.remote_shell import ShellRequest, find_task
from ytf.errors import NotFoundError, RefusedError, SpecError
from ytf.specs.status import JobState, TaskState
from ytf.wire.shell_messages import OpenMessage, WindowSize

STATUS = status(
    JobState.RUNNING,
    task("chief", 0, TaskState.RUNNING, container="c0"),
    task("worker", 0, TaskState.RUNNING, container="c1"),
    task("worker", 1, TaskState.STARTING, container="c2"),
    task("worker", 2, TaskState.PENDING),
    task("worker", 3, TaskState.SUCCEEDED, container="c3"),
    task("client", 0, TaskState.RUNNING),
)


@pytest.mark.parametrize(
    ("wanted", "container"), [("worker:0", "c1"), ("chief:0", "c0"), ("chief", "c0")]
)
def test_running_tasks_by_id_and_groups_of_one(wanted: str, container: str) -> None:
    assert find_task(STATUS, wanted).container == container


@pytest.mark.parametrize(
    ("wanted", "error", "message", "hint"),
    [
        ("worker", NotFoundError, "has 4 tasks worker", "worker:0"),
        ("worker:9", NotFoundError, "has no task worker:9", "did you mean"),
        ("evaluator", NotFoundError, "has no task evaluator", "chief:0"),
        ("worker:1", RefusedError, "worker:1 does not run now: it is STARTING", "ytf status"),
        ("worker:2", RefusedError, "does not run now: it is PENDING", "ytf status"),
        ("worker:3", RefusedError, "worker:3 has ended: it is SUCCEEDED", "ytf logs"),
        ("client:0", RefusedError, "runs at the terminal of its user", None),
    ],
)
def test_what_has_no_shell(wanted: str, error: type, message: str, hint: str | None) -> None:
    with pytest.raises((NotFoundError, RefusedError), match=message) as raised:
        find_task(STATUS, wanted)
    assert isinstance(raised.value, error)
    assert (hint or "") in (raised.value.hint or "")


def test_a_request_says_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    request = ShellRequest(command=None, size=WindowSize(3, 4))
    got = OpenMessage.decode(request.message())
    assert (got.command, got.term) == (None, "xterm")


def test_a_command_beyond_one_frame_is_refused() -> None:
    with pytest.raises(SpecError, match="too long") as raised:
        ShellRequest(command="x" * 40_000, size=None).message()
    assert "script" in (raised.value.hint or "")
