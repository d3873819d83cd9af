"""Running checks: in order, each within its time, and none spoils the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ytf.backends.checks import Check, CheckFinding, failed, note, ok
from ytf.client.check_runner import run_checks
from ytf.errors import InternalError, UnreachableError
from ytf.specs.checks import CheckName, CheckResult, CheckState


def check(name: CheckName, run: Callable[[], CheckFinding], *needs: CheckName) -> Check:
    return Check(name=name, run=run, needs=needs)


def run(*checks: Check) -> dict[str, CheckResult]:
    return {result.name.value: result for result in run_checks(checks, lambda _: None)}


def fail(error: BaseException) -> Callable[[], CheckFinding]:
    def work() -> CheckFinding:
        raise error

    return work


def test_each_result_is_told_as_soon_as_it_is_known() -> None:
    told: list[CheckName] = []
    found = run_checks(
        [
            check(CheckName.YTF, lambda: ok("well")),
            check(CheckName.HOME, lambda: ok(f"after {told}")),
        ],
        lambda result: told.append(result.name),
    )
    assert told == [CheckName.YTF, CheckName.HOME]
    assert found[1].text == "after [<CheckName.YTF: 'ytf'>]"


def test_what_depends_on_a_failure_is_skipped_and_the_rest_is_not() -> None:
    found = run(
        check(CheckName.RESOURCE_MANAGER, lambda: failed("mute", "wake it")),
        check(CheckName.NODES, lambda: ok("many"), CheckName.RESOURCE_MANAGER),
        check(CheckName.NODE_RECOVERY, lambda: ok("on"), CheckName.NODES),
        check(CheckName.NAME_NODE, lambda: note("one is away")),
        check(CheckName.HDFS_HOME, lambda: ok("yours"), CheckName.NAME_NODE),
    )
    assert {name: each.state.value for name, each in found.items()} == {
        "ResourceManager": "failed",
        "nodes": "skipped",
        "node recovery": "skipped",
        "NameNode": "note",
        "HDFS home": "ok",
    }
    # The first cause is named, however far away it is.
    assert found["node recovery"].text == "not checked, because ResourceManager failed"
    assert found["ResourceManager"].hint == "wake it"


@pytest.mark.parametrize(
    ("error", "text", "hint"),
    [
        (UnreachableError("gone", hint="start it"), "gone", "start it"),
        (PermissionError(13, "Permission denied"), "[Errno 13] Permission denied", None),
        (TimeoutError("slow disk"), "slow disk", None),
        (InternalError("odd"), "odd", "this is a bug in ytf: please report it"),
        (
            ZeroDivisionError("x"),
            "the check itself failed: ZeroDivisionError('x')",
            "this is a bug in ytf: please report it",
        ),
    ],
)
def test_whatever_a_check_raises_it_has_failed(
    error: BaseException, text: str, hint: str | None
) -> None:
    found = run(check(CheckName.YTF, fail(error)), check(CheckName.HOME, lambda: ok("well")))
    assert found["ytf"] == CheckResult(
        name=CheckName.YTF, state=CheckState.FAILED, text=text, hint=hint
    )
    assert found["YTF_HOME"].state is CheckState.OK


def test_nobody_waits_for_one_that_hangs() -> None:
    forever = threading.Event()

    def hang() -> CheckFinding:
        forever.wait(60)
        return ok("late")

    began = time.monotonic()
    found = run(Check(name=CheckName.YTF, run=hang, limit_s=0.05))
    forever.set()
    assert time.monotonic() - began < 30
    assert found["ytf"].state is CheckState.FAILED
    assert found["ytf"].text == "has not ended within 0.05 s"


def test_one_without_a_limit_runs_in_the_main_thread_where_signals_arrive() -> None:
    def where() -> CheckFinding:
        return ok(threading.current_thread().name)

    found = run(
        Check(name=CheckName.YTF, run=where),
        Check(name=CheckName.TEST_JOB, run=where, limit_s=None),
    )
    assert found["ytf"].text == "check"
    assert found["test job"].text == threading.main_thread().name


def test_an_interrupt_ends_all_of_it() -> None:
    interrupted = Check(name=CheckName.YTF, run=fail(KeyboardInterrupt()), limit_s=None)
    with pytest.raises(KeyboardInterrupt):
        run(interrupted)
