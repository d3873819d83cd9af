"""``ytf doctor``: checks what jobs need, and says what to do about what is wrong."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from ytf.backends.api import lasting_only
from ytf.cli.interrupts import Interrupted, Interrupts
from ytf.cli.output import say
from ytf.cli.tables import print_json
from ytf.client.check_runner import run_checks
from ytf.client.doctor import DoctorRequest, make_checks
from ytf.specs.checks import CheckResult, CheckState
from ytf.terminal_text import printable

_WORDS = {
    CheckState.OK: "ok",
    CheckState.NOTE: "note",
    CheckState.FAILED: "FAIL",
    CheckState.SKIPPED: "skip",
}
_COLOURS = {CheckState.OK: "32", CheckState.NOTE: "33", CheckState.FAILED: "1;31"}
_WIDTH = 80
_LEAST_WIDTH = 40
_HELD = "ytf: interrupted while the job is being accepted: it is killed afterwards"


def doctor(*, backend: str | None, queue: str | None, remote: bool, json: bool) -> int:
    """Run all checks; returns 0 if none failed, else 1."""
    interrupts = Interrupts()
    request = DoctorRequest(
        backend=backend,
        queue=queue,
        runs_job=remote,
        notify=lasting_only(lambda text: say(f"ytf: {text}")),
        hold=partial(interrupts.holding, _HELD),
    )
    checks = make_checks(request)
    lines = _Lines([check.name.value for check in checks])
    try:
        with interrupts:
            results = run_checks(checks, (lambda _: None) if json else lines.show)
    except Interrupted as interrupt:
        say(f"ytf: {interrupt}: not all checks were made")
        return interrupt.exit_code
    if json:
        print_json(msgspec.json.encode(results))
    else:
        print(f"\n{summary(results)}")
    return 1 if any(result.state is CheckState.FAILED for result in results) else 0


def summary(results: Sequence[CheckResult]) -> str:
    """How many checks ended how, in one line."""
    counts = {state: sum(each.state is state for each in results) for state in CheckState}
    words = {
        CheckState.OK: "ok",
        CheckState.NOTE: "notes" if counts[CheckState.NOTE] != 1 else "note",
        CheckState.FAILED: "failed",
        CheckState.SKIPPED: "skipped",
    }
    return ", ".join(f"{count} {words[state]}" for state, count in counts.items() if count)


class _Lines:
    """Prints results as they come, below each other."""

    def __init__(self, names: Sequence[str]) -> None:
        self._indent = len("FAIL  ")
        self._column = self._indent + max(map(len, names)) + 2
        is_terminal = sys.stdout.isatty()
        self._width = _WIDTH
        if is_terminal:
            self._width = max(_LEAST_WIDTH, min(_WIDTH, shutil.get_terminal_size().columns))
        self._has_colours = is_terminal and "NO_COLOR" not in os.environ

    def show(self, result: CheckResult) -> None:
        """Print one result at once."""
        word = _WORDS[result.state].ljust(self._indent)
        if self._has_colours and result.state in _COLOURS:
            word = f"\x1b[{_COLOURS[result.state]}m{word}\x1b[0m"
        name = result.name.value.ljust(self._column - self._indent)
        lines = self._wrapped(result.text, " " * self._column)
        print(f"{word}{name}{next(lines).strip()}")
        for line in lines:
            print(line)
        if result.hint is not None:
            for line in self._wrapped(f"hint: {result.hint}", " " * self._column):
                print(line)
        sys.stdout.flush()

    def _wrapped(self, text: str, indent: str) -> Iterator[str]:
        """The lines of a text of others, none of which obeys control characters."""
        for line in printable(text).splitlines() or [""]:
            yield from textwrap.wrap(
                line,
                self._width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
