"""What an owner reads of a master that was killed for the last time."""

from __future__ import annotations

import pytest

from ytf.backends.yarn.failure_explanations import explain_application_failure

LONG = "9" * 5000


def failed(code: int, said: str = "", times: int = 2, limits: str = "") -> str:
    """What a ResourceManager says of an application without a master left."""
    return f"""\
Application application_1_0007 failed {times} times in previous 600000 milliseconds{limits} due to \
AM Container for appattempt_1_0007_00000{times} exited with  exitCode: {code}
Failing this attempt.Diagnostics: [2026-11-16 07:33:05.279]Container killed on request. Exit code \
is {code}
[2026-11-16 07:33:05.286]Container exited with a non-zero exit code {code}.{said}
[2026-11-16 07:33:05.286]Killed by external signal
For more detailed output, check the application tracking page: http://h/app Then click on links.
. Failing the application."""


STDERR = " Last 4096 bytes of stderr :\nsomething odd\n\n"
KILLED = (
    "hint: it was killed, and not by ytf: if its node ran out of memory (its kernel log would say "
    "so), ask for more: --master_memory; "
)
CLUSTER = (
    "the cluster starts a master at most {}: its administrator can raise "
    "yarn.resourcemanager.am.global.max-attempts"
)
TWICE = CLUSTER.format("2 times")


@pytest.mark.parametrize(
    ("diagnostics", "lines"),
    [
        (failed(137),
         ["The job's master failed 2 times: the last time it was ended by SIGKILL.",
          KILLED + TWICE]),
        (failed(137, times=1),
         ["The job's master failed once: it was ended by SIGKILL.",
          KILLED + CLUSTER.format("once")]),
        (failed(137, limits=" (global limit =10; local limit is =2)"),
         ["The job's master failed 2 times: the last time it was ended by SIGKILL.",
          KILLED + "--max_master_attempts lets the master be started more often "
          "(this cluster allows 10)"]),
        (failed(137, STDERR),
         ["The job's master failed 2 times: the last time it was ended by SIGKILL, and said:",
          "something odd", KILLED + TWICE]),
        (failed(143),
         ["The job's master failed 2 times: the last time it was ended by SIGTERM.",
          "hint: it was killed, and not by ytf; " + TWICE]),
        (failed(139), ["The job's master failed 2 times: the last time it was ended by SIGSEGV."]),
    ],
)  # fmt: skip
def test_a_signal_is_named_with_what_helps(diagnostics: str, lines: list[str]) -> None:
    assert explain_application_failure(diagnostics).splitlines() == lines


@pytest.mark.parametrize("code", [137, 143])
def test_a_node_that_killed_for_memory_may_tell_its_signal(code: int) -> None:
    said = (
        " Container [pid=1,containerID=c] is running 92274688B beyond the 'PHYSICAL' memory "
        "limit. Current usage: 600 MB of 512 MB physical memory used; 1.1 GB of 1 GB virtual "
        "memory used. Killing container."
    )
    assert explain_application_failure(failed(code, said)) == (
        "The job's master failed 2 times: it used 600 MB of the 512 MB of memory that it may use, "
        "and was killed.\nhint: ask for more memory: --master_memory 768"
    )


def test_an_exit_code_without_words_is_left_to_yarn() -> None:
    assert explain_application_failure(failed(6)) == failed(6)


@pytest.mark.parametrize(
    "diagnostics",
    [
        f"failed {LONG} times due to AM Container exited with  exitCode: {LONG}",
        f"failed 2 times due to AM Container exited with  exitCode: {LONG}",
        failed(-104, f"{LONG}.{LONG} GB of {LONG} GB physical memory used"),
        failed(-103, f"1 GB of 1 GB physical memory used; {LONG} EB of 1 GB virtual memory used"),
    ],
)
def test_no_number_raises(diagnostics: str) -> None:
    """A master ends with whatever diagnostics it likes, also one that is not ours."""
    assert explain_application_failure(diagnostics)
