"""Runs checks one after the other, each within its time, and skips those that cannot succeed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from ytf.backends.checks import Check, CheckFinding, failed
from ytf.errors import InternalError, YtfError
from ytf.specs.checks import CheckName, CheckResult, CheckState

_BUG = "this is a bug in ytf: please report it"


def run_checks(
    checks: Iterable[Check], on_result: Callable[[CheckResult], None]
) -> list[CheckResult]:
    """Return the result of each check; ``on_result`` gets it as soon as it is known.

    No check ends the others, whatever it raises. Only an interrupt does.
    """
    results: list[CheckResult] = []
    failures: dict[CheckName, CheckName] = {}
    """By each check that was not successful, the one that failed first."""
    for check in checks:
        cause = next((failures[name] for name in check.needs if name in failures), None)
        if cause is None:
            found = _find(check)
        else:
            found = CheckFinding(CheckState.SKIPPED, f"not checked, because {cause.value} failed")
        if found.state in (CheckState.FAILED, CheckState.SKIPPED):
            failures[check.name] = cause or check.name
        results.append(
            CheckResult(name=check.name, state=found.state, text=found.text, hint=found.hint)
        )
        on_result(results[-1])
    return results


def _find(check: Check) -> CheckFinding:
    try:
        return check.run() if check.limit_s is None else _within(check.run, check.limit_s)
    except InternalError as error:
        return failed(str(error), _BUG)
    except YtfError as error:
        return failed(str(error), error.hint)
    except OSError as error:
        return failed(str(error))
    except Exception as error:
        return failed(f"the check itself failed: {error!r}", _BUG)


def _within(run: Callable[[], CheckFinding], limit_s: float) -> CheckFinding:
    done: Future[CheckFinding] = Future()

    def work() -> None:
        try:
            done.set_result(run())
        except BaseException as error:
            done.set_exception(error)

    # A daemon: nobody waits for a check that hangs.
    threading.Thread(target=work, name="check", daemon=True).start()
    try:
        return done.result(limit_s)
    except FutureTimeoutError:
        if done.done():
            raise  # what the check itself raised may be of the same kind
        return failed(f"has not ended within {limit_s:g} s", "see whether what it asks hangs")
