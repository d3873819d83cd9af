"""The events for YARN's exit statuses."""

from __future__ import annotations

import pytest

from ytf.backends.yarn.failure_explanations import explain_application_failure
from ytf.backends.yarn.master.exit_causes import completed_event
from ytf.hadoop.yarn.ids import ContainerId
from ytf.hadoop.yarn.records import ContainerState, ContainerStatus
from ytf.machine.events import (
    Cause,
    ContainerAllocated,
    ContainerCompleted,
    MasterStarted,
    StarterRegistered,
    TaskStarted,
)
from ytf.machine.machine import Machine
from ytf.specs.ids import ContainerId as ContainerName
from ytf.specs.ids import NodeId, RequestId, TaskId
from ytf.specs.job import JobSpec, Resources, TaskGroupSpec

CONTAINER = "container_e02_1700000000000_0007_01_000003"


def ended(status: int, diagnostics: str = "", *, launched: bool = True) -> ContainerCompleted:
    told = ContainerStatus(
        container=ContainerId.parse(CONTAINER),
        state=ContainerState.COMPLETE,
        exit_status=status,
        diagnostics=diagnostics,
    )
    return completed_event(told, launched=launched)


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
    event = ended(-1000, said + FRAMES)
    assert event.cause is Cause.EXITED
    assert event.diagnostics.startswith("its node could not prepare it: ")
    assert meaning in event.diagnostics
    first, *rest = explain_application_failure(
        f"AM Container exited with -1000\n{said}{FRAMES}"
    ).splitlines()
    assert meaning in first
    assert rest == ["AM Container exited with -1000", said]


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (
            "[2026-11-16 10:41:30.000]File does not exist: hdfs://n:1/data/a.bin",
            "hdfs://n:1/data/a.bin is not there any more, and the job brings it along",
        ),
        (
            'Resource hdfs://n:1/data/a.bin changed on src filesystem - expected: "1", was: "2"',
            "hdfs://n:1/data/a.bin was changed after the job was submitted: submit the job again",
        ),
        (
            # Nodes keep the last ten thousand characters of what they have to say.
            (
                "DelegatingMethodAccessorImpl.invoke(DelegatingMethodAccessorImpl.java:43)\n"
                "\tat java.base/java.lang.Thread.run(Thread.java:840)\n\t... 31 more\n"
                "Caused by: org.apache.hadoop.ipc.RemoteException(AccessControlException): "
                "Permission denied: user=bob, access=READ, "
                'inode="/data/a.bin":root:supergroup:-rw-------'
            ),
            "bob may not read /data/a.bin in HDFS, which the job brings along",
        ),
    ],
)
def test_a_file_of_the_users_own_is_no_layer(said: str, meaning: str) -> None:
    event = ended(-1000, said + FRAMES)
    assert event.diagnostics.startswith(f"its node could not prepare it: {meaning}")
    assert not event.diagnostics.endswith(".")
    assert event.detail
    assert "DelegatingMethod" not in event.detail
    assert "more" not in event.detail
    assert explain_application_failure(said).startswith(meaning)


def test_a_container_that_was_lost_with_a_master() -> None:
    event = ended(-100, "Container of a completed application", launched=False)
    assert event.cause is Cause.NOT_KEPT


def test_what_a_node_says_that_we_do_not_know_is_told_once() -> None:
    event = ended(-1000, f"Disk on fire{FRAMES}")
    assert event.diagnostics == "its node could not prepare it: Disk on fire"
    assert event.detail == ""
    assert ended(-1000).diagnostics == "its node could not prepare it"


def memory_said(kind: str, used: str, limit: str, used_virtual: str, limit_virtual: str) -> str:
    """As ContainersMonitorImpl of 3.3.6, 3.4.3 and 3.5.0 writes it, with what comes around it."""
    return (
        f"[2026-11-16 10:01:02.345]Container [pid=4711,containerID={CONTAINER}] is running "
        f"94359552B beyond the '{kind}' memory limit. Current usage: {used} of {limit} physical "
        f"memory used; {used_virtual} of {limit_virtual} virtual memory used. Killing container.\n"
        f"Dump of the process-tree for {CONTAINER} :\n"
        "\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS)\n\n"
        "[2026-11-16 10:01:02.399]Container killed on request. Exit code is 143\n"
        "[2026-11-16 10:01:02.402]Container exited with a non-zero exit code 143. \n"
    )


def told(event: ContainerCompleted, asked_mb: int = 2048) -> str:
    """What the user reads when worker:1 runs in this container, on one line."""
    group = TaskGroupSpec(count=2, resources=Resources(memory=asked_mb))
    machine = Machine(JobSpec(groups={"worker": group}, command="x"))
    machine.handle(MasterStarted(attempt=1), 0.0)
    for index in range(2):
        task = TaskId(f"worker:{index}")
        container = event.container if index else ContainerName("other")
        allocated = ContainerAllocated(
            request=RequestId(f"{task}#1"), container=container, node=NodeId("node2:45454")
        )
        registered = StarterRegistered(
            task=task, attempt=1, container=container, host="node2", port=1, control=None
        )
        started = TaskStarted(task=task, attempt=1, container=container)
        for each in (allocated, registered, started):
            machine.handle(each, 1.0)
    machine.handle(event, 2.0)
    return machine.state.diagnostics.replace("\n", " ")


@pytest.mark.parametrize(
    ("status", "said", "needed_mb", "text"),
    [
        (
            -104,
            memory_said("PHYSICAL", "2.3 GB", "2 GB", "4.7 GB", "4.2 GB"),
            2356,
            (
                "worker:1 ended on node2:45454: it used 2.3 GB of the 2 GB of memory that it "
                "may use, and was killed. hint: ask for more memory: -m worker:3g"
            ),
        ),
        (
            -104,
            memory_said("PHYSICAL", "2,3 GB", "2 GB", "4,7 GB", "4,2 GB"),
            2356,
            (
                "worker:1 ended on node2:45454: it used 2,3 GB of the 2 GB of memory that it "
                "may use, and was killed. hint: ask for more memory: -m worker:3g"
            ),
        ),
        (
            -104,
            memory_said("PHYSICAL", "2.0 GB", "2 GB", "4.7 GB", "4.2 GB"),
            2048,
            (
                "worker:1 ended on node2:45454: it used more than the 2 GB of memory that it "
                "may use, and was killed. hint: ask for more memory: -m worker:3g"
            ),
        ),
        (
            -103,
            memory_said("VIRTUAL", "199.2 MB", "2 GB", "5.4 GB", "4.2 GB"),
            2634,
            (
                "worker:1 ended on node2:45454: it used 5.4 GB of the 4.2 GB of virtual memory "
                "that its node allows for 2 GB, and was killed. hint: ask for more memory: "
                "-m worker:4g"
            ),
        ),
        (
            -104,
            "Container is over its limit.",
            None,
            (
                "worker:1 ended on node2:45454: it used more memory than it had asked for, and was "
                "killed. hint: ask for more memory: -m worker:4g"
            ),
        ),
    ],
)
def test_too_much_memory(status: int, said: str, needed_mb: int | None, text: str) -> None:
    event = ended(status, said)
    assert (event.cause, event.needed_mb) == (Cause.MEMORY, needed_mb)
    assert "beyond" in event.detail or needed_mb is None
    assert "Dump" not in event.detail
    assert told(event) == text


@pytest.mark.parametrize("status", [137, 143])
def test_a_kill_for_memory_is_known_by_what_the_node_says(status: int) -> None:
    physical = ended(status, memory_said("PHYSICAL", "2.3 GB", "2 GB", "3 GB", "4.2 GB"))
    assert (physical.cause, physical.needed_mb) == (Cause.MEMORY, 2356)
    virtual = ended(status, memory_said("VIRTUAL", "1 GB", "2 GB", "8.4 GB", "4.2 GB"))
    assert (virtual.cause, virtual.needed_mb) == (Cause.MEMORY, 4096)
    assert (virtual.exit_code, virtual.signal) == (None, None)


def test_a_small_container_is_told_of_in_mb() -> None:
    event = ended(-104, memory_said("PHYSICAL", "203.1 MB", "128 MB", "1.1 GB", "268.8 MB"))
    assert told(event, 128).endswith("ask for more memory: -m worker:256")


def test_a_master_that_used_too_much() -> None:
    said = (
        "Application application_1_0007 failed 2 times due to AM Container for "
        "appattempt_1_0007_000002 exited with  exitCode: -104\nFailing this attempt.Diagnostics: "
        + memory_said("PHYSICAL", "600 MB", "512 MB", "1.1 GB", "1 GB")
    )
    assert explain_application_failure(said) == (
        "The job's master failed 2 times: it used 600 MB of the 512 MB of memory that it may use, "
        "and was killed.\nhint: ask for more memory: --master_memory 768"
    )


_SURVIVE = " To survive this: --on_failure worker:restart-job, or worker:restart-task."


@pytest.mark.parametrize(
    ("status", "said", "cause", "text"),
    [
        (-100, "Container released on a *lost* node", Cause.NODE_LOST,
         f"worker:1 was lost on node2:45454: its node was lost.{_SURVIVE}"),
        (-100, "Container expired since it was unused", Cause.EXPIRED,
         f"worker:1 was lost on node2:45454: its container was not launched in time.{_SURVIVE}"),
        (-100, "Container released by application", Cause.RELEASED,
         "worker:1 ended on node2:45454: its container was released."),
        (-100, "Something else", Cause.REVOKED,
         f"worker:1 was lost on node2:45454: the cluster took its container back.{_SURVIVE}"),
        (-101, "[2026-11-16 10:01:02.345]Most of the disks failed. 1/1 local-dirs have errors",
         Cause.DISK_FAILED,
         f"worker:1 was lost on node2:45454: its node's disks failed.{_SURVIVE}"),
        (-102, "Container preempted by scheduler", Cause.PREEMPTED,
         f"worker:1 was lost on node2:45454: its container was preempted.{_SURVIVE}"),
        (-105, "Container killed by the ApplicationMaster.", Cause.RELEASED,
         "worker:1 ended on node2:45454: its container was released."),
        (-106, "Container Killed by ResourceManager", Cause.REVOKED,
         f"worker:1 was lost on node2:45454: the cluster took its container back.{_SURVIVE}"),
        (-107, "Application killed by ResourceManager", Cause.RELEASED,
         "worker:1 ended on node2:45454: its container was released."),
        (-108, "Container Killed to make room for Guaranteed Container.", Cause.PREEMPTED,
         f"worker:1 was lost on node2:45454: its container was preempted.{_SURVIVE}"),
        (-109, "Container [pid=1,containerID=c] is logging beyond the container total log limit.",
         Cause.LOGS,
         ("worker:1 ended on node2:45454: it wrote more logs than its node allows, and was killed. "
         "hint: write less to stdout and stderr")),
        (-7777, "A new idea", Cause.EXITED,
         ("worker:1 ended on node2:45454: its container ended with YARN's status -7777: "
         "A new idea.")),
        (137, "[2026-11-16 10:01:02.399]Container killed on request. Exit code is 137",
         Cause.EXITED,
         ("worker:1 was ended by SIGKILL on node2:45454: its container ended before the end of its "
         "program was reported. hint: it was killed, and not by ytf: if the node ran out of memory "
         "(its kernel log would say so), ask for more: -m worker:4g")),
    ],
)  # fmt: skip
def test_every_end_is_told(status: int, said: str, cause: Cause, text: str) -> None:
    event = ended(status, f"{said}\n  and a page of stack traces\n")
    assert (event.container, event.cause) == (CONTAINER, cause)
    assert said.endswith(event.detail)
    assert told(event) == text


def test_what_never_ran_was_given_back_too_late() -> None:
    assert ended(-100, "Something else", launched=False).cause is Cause.EXPIRED


def test_what_a_process_says() -> None:
    good, bad = ended(0, "noise"), ended(3, "Exception from launch")
    assert (good.cause, good.exit_code, good.detail) == (Cause.EXITED, 0, "")
    assert (bad.cause, bad.exit_code, bad.signal) == (Cause.EXITED, 3, None)
    assert (bad.diagnostics, bad.detail) == ("", "Exception from launch")
    assert ended(6, MASTER_FAILED).tail.startswith("ytf: this node, vm, has no /no/such/python")


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
    assert explain_application_failure(MASTER_FAILED).splitlines() == [
        "The job's master failed 2 times, the last time with exit code 6, and said:",
        "ytf: this node, vm, has no /no/such/python: name another.",
        "ytf: second line",
    ]
