"""Stages files in before a task's program and out after it, by helper processes (ADR 31).

Hooks of an attempt, see ``ytf.starter.attempt``. What is copied is told in the task's
stderr and, with heartbeats, to the master.
"""

from __future__ import annotations

import time

from ytf.starter.runner import CANNOT_RUN, ProgramExit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from ytf.starter.attempt import TaskAttempt
    from ytf.starter.helper_process import HelperExit, HelperProcess
    from ytf.starter.starter import Starter

STAGE_IN = "ytf.storage.stage_in"
STAGE_OUT = "ytf.storage.stage_out"
TRIES = 4
"""How often a helper is started that is killed or fails without a reason."""
FIRST_TELL_S = 5.0
LONGEST_TELL_S = 60.0
"""The time between two lines of progress in the task's stderr: it doubles from one to the next."""
_LONGEST_TEXT = 300


def stage_in(starter: Starter, attempt: TaskAttempt, tell: Callable[[str], None]) -> None:
    """Copy the task's files into its working directory; a failure is the attempt's exit.

    Finds out, too, that a destination of stage-out cannot be used: before the program
    runs, not after.
    """
    config = starter.config
    if attempt.exit is not None:
        return
    if config.stage_out:
        _run(starter, attempt, STAGE_OUT, _outputs(starter, check=True), "stage-out", tell)
    if config.stage_in and attempt.exit is None:
        request = {
            "sources": config.stage_in,
            "index": config.index,
            "tasks": config.tasks,
            "node": starter.host,
        }
        _run(starter, attempt, STAGE_IN, request, "stage-in", tell)


def stage_out(starter: Starter, attempt: TaskAttempt, tell: Callable[[str], None]) -> None:
    """Copy what the program has left; if that fails, so does the attempt."""
    end = attempt.exit
    if end is None or (end.exit_code == CANNOT_RUN and end.reason):
        return
    request = _outputs(starter, check=False)
    failed = end.exit_code != 0
    if failed:
        request["outputs"] = [each for each in request["outputs"] if each["always"]]
    if not request["outputs"]:
        return
    attempt.exit = None
    _run(starter, attempt, STAGE_OUT, request, "stage-out", tell)
    # A program that failed has a reason of its own, which is the one to report.
    if failed or attempt.exit is None:
        attempt.exit = end


def _outputs(starter: Starter, check: bool) -> Dict[str, Any]:
    config = starter.config
    return {
        "outputs": config.stage_out,
        "job": config.job,
        "task": config.task,
        "node": starter.host,
        "check": check,
    }


def _run(
    starter: Starter,
    attempt: TaskAttempt,
    module: str,
    request: Dict[str, Any],
    name: str,
    tell: Callable[[str], None],
) -> None:
    """Run a helper to its end; if it fails, that is the attempt's exit."""
    progress = _Progress(starter, name, tell)
    reason = ""
    for left in range(TRIES - 1, -1, -1):
        try:
            helper = starter.helpers.start(module, request, progress.take)
        except OSError as exc:
            reason = "its helper process could not be started: %s" % exc
            break
        end = _wait(starter, helper)
        if end.exit_code == 0:
            return
        if "error" in helper.last:
            reason = str(helper.last["error"])
            break
        reason = "its helper process failed: %s" % end
        if left:
            tell("%s: %s; it is started again" % (name, reason))
    text = "%s failed: %s" % (name, reason)
    tell(text)
    attempt.exit = ProgramExit(CANNOT_RUN, reason=text)


def _wait(starter: Starter, helper: HelperProcess) -> HelperExit:
    try:
        starter.wait_until(lambda: helper.exit is not None)
    finally:
        starter.activity = ""
    assert helper.exit is not None
    return helper.exit


class _Progress:
    """Passes the messages of a helper on. Its methods are called by the helper's thread."""

    def __init__(self, starter: Starter, name: str, tell: Callable[[str], None]) -> None:
        self._starter = starter
        self._name = name
        self._tell = tell
        self._pause_s = FIRST_TELL_S
        self._next = time.monotonic() + FIRST_TELL_S

    def take(self, message: Dict[str, Any]) -> None:
        """Take a message: progress is told seldom, everything else at once."""
        for kind, text in message.items():
            if kind == "error":
                continue  # it becomes the reason
            line = "%s: %s" % (self._name, str(text)[:_LONGEST_TEXT])
            if kind != "progress":
                self._tell(line)
                continue
            self._starter.activity = line
            now = time.monotonic()
            if now >= self._next:
                self._pause_s = min(self._pause_s * 2, LONGEST_TELL_S)
                self._next = now + self._pause_s
                self._tell(line)
