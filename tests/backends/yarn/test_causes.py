"""YARN's exit statuses in the job machine's words."""

from __future__ import annotations

import pytest

from ytf.backends.yarn.causes import completion
from ytf.backends.yarn.wording import in_words
from ytf.hadoop.yarn.ids import ContainerId
from ytf.hadoop.yarn.records import ContainerState, ContainerStatus
from ytf.master.events import Cause, ContainerCompleted

CONTAINER = "container_e02_1700000000000_0007_01_000003"


def ended(status: int, diagnostics: str = "", *, launched: bool = True) -> ContainerCompleted:
    told = ContainerStatus(
        container=ContainerId.parse(CONTAINER),
        state=ContainerState.COMPLETE,
        exit_status=status,
        diagnostics=diagnostics,
    )
    return completion(told, launched=launched)


LAYER = f"hdfs://n:1/user/ann/.ytf/layers/ann/8f/{'8f' * 16}-0-2471-{'7a' * 8}.tar.gz"
FRAMES = (
    "\n\tat org.apache.hadoop.yarn.util.FSDownload.access$000(FSDownload.java:72)\n\t... 10 more\n"
)


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (f"[2026-01-01 1:2:3.4]File does not exist: {LAYER}", "submit the job again"),
        (f'Resource {LAYER} changed on src filesystem - expected: "1"', "`ytf gc --verify`"),
        ("Caused by: YarnException: Download and unpack failed", "`ytf gc --verify`"),
    ],
)
def test_a_layer_that_a_node_cannot_fetch(said: str, meaning: str) -> None:
    told = ended(-1000, said + FRAMES)
    assert told.cause is Cause.EXITED
    assert told.diagnostics.startswith("its node could not prepare it (")
    assert meaning in told.diagnostics
    first, *rest = in_words(f"AM Container exited with -1000\n{said}{FRAMES}").splitlines()
    assert meaning in first
    assert rest == ["AM Container exited with -1000", said]


def test_a_file_of_the_users_own_is_no_layer() -> None:
    said = "File does not exist: hdfs://n:1/user/ann/data.tar.gz"
    assert in_words(said) == said
    assert ended(-1000, said).diagnostics == f"its node could not prepare it ({said})"


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (-101, Cause.DISK_FAILED),
        (-102, Cause.PREEMPTED),
        (-103, Cause.MEMORY),
        (-104, Cause.MEMORY),
        (-105, Cause.RELEASED),
        (-106, Cause.RELEASED),
        (-107, Cause.RELEASED),
        (-108, Cause.PREEMPTED),
        (-109, Cause.LOGS),
        (-7777, Cause.EXITED),
    ],
)
def test_what_yarn_says_by_number(status: int, cause: Cause) -> None:
    event = ended(status, "first line\n  and a page of stack traces\n")
    assert (event.container, event.cause) == (CONTAINER, cause)
    assert (event.exit_code, event.signal) == (None, None)
    assert event.diagnostics.endswith("(first line)")


def test_an_abort_has_three_reasons() -> None:
    lost = "Container released on a *lost* node"
    assert ended(-100, lost).cause is Cause.NODE_LOST
    assert ended(-100, lost, launched=False).cause is Cause.NODE_LOST
    assert ended(-100, "Container released by application").cause is Cause.RELEASED
    assert ended(-100, "Container expired", launched=False).cause is Cause.EXPIRED


def test_what_a_process_says() -> None:
    good, bad, killed = ended(0, "noise"), ended(3, "Exception from launch"), ended(137)
    assert (good.cause, good.exit_code, good.diagnostics) == (Cause.EXITED, 0, "")
    assert (bad.cause, bad.exit_code, bad.signal) == (Cause.EXITED, 3, None)
    assert bad.diagnostics == "exited with 3 (Exception from launch)"
    assert (killed.exit_code, killed.signal) == (None, 9)
    assert killed.diagnostics == "ended by signal 9"


MASTER_FAILED = """\
Application application_1_0007 failed 2 times in previous 600000 milliseconds due to AM Container \
for appattempt_1_0007_000002 exited with  exitCode: 6
Failing this attempt.Diagnostics: [2026-11-16 07:33:05.279]Exception from container-launch.
Container id: container_1_0007_02_000001
Exit code: 6

[2026-11-16 07:33:05.286]Container exited with a non-zero exit code 6. Error file: prelaunch.err.
Last 4096 bytes of prelaunch.err :
Last 4096 bytes of stderr :
ytf: this node, vm, has no /no/such/python: name another.
ytf: second line


[2026-11-16 07:33:05.286]Container exited with a non-zero exit code 6. Error file: prelaunch.err.
Last 4096 bytes of stderr :
ytf: this node, vm, has no /no/such/python: name another.


. Failing the application."""


def test_what_a_master_said_last_is_what_is_told() -> None:
    assert in_words(MASTER_FAILED).splitlines() == [
        "The job's master failed 2 times, the last time with exit code 6, and said:",
        "ytf: this node, vm, has no /no/such/python: name another.",
        "ytf: second line",
    ]
