"""Defines a check of ``ytf doctor``: what backends give, and the client runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ytf.specs.checks import CheckName, CheckState

if TYPE_CHECKING:
    from ytf.specs.job import JobSpec
    from ytf.specs.status import JobEvent, JobStatus

ANSWER_S = 8.0
"""How long a peer may be silent in a check, which then says so."""
LIMIT_S = 20.0
"""How long a check may take, by default: on a busy machine longer than the answers it waits for."""

_MOST_SKEW_S = 30.0


class CheckFinding(NamedTuple):
    """How a check ended, what was found, and what to do about it."""

    state: CheckState
    text: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check. An error of ytf or of the system that ``run`` raises makes it fail.

    It is made only if those that it ``needs`` have succeeded. ``run`` is called in
    a thread of its own; if it has not returned after ``limit_s``, the check has failed,
    and nobody waits for the thread. With None it is called in the main thread, which
    receives signals, and limits its time itself.
    """

    name: CheckName
    run: Callable[[], CheckFinding]
    needs: tuple[CheckName, ...] = ()
    limit_s: float | None = LIMIT_S


class ProbeJob(Protocol):
    """The job that a backend's check runs. The client submits and follows it."""

    needs: tuple[CheckName, ...]
    limit_s: float
    """How long it may take from its acceptance to its end."""

    def spec(self) -> JobSpec:
        """Return the job to submit; called once."""
        ...

    def conclude(
        self, status: JobStatus, events: Sequence[JobEvent], start_s: float
    ) -> CheckFinding:
        """Return what a job that succeeded tells; it took ``start_s`` until its task ran."""
        ...

    def close(self) -> None:
        """Remove all that this has made. Also called if the job was never submitted."""
        ...


@dataclass(frozen=True)
class BackendChecks:
    """The checks of one backend: first those that run here, then its job."""

    checks: Sequence[Check]
    job: ProbeJob


def ok(text: str) -> CheckFinding:
    """Return the finding that all is well."""
    return CheckFinding(CheckState.OK, text)


def note(text: str, hint: str | None = None) -> CheckFinding:
    """Return the finding that something may surprise, while jobs run."""
    return CheckFinding(CheckState.NOTE, text, hint)


def failed(text: str, hint: str | None = None) -> CheckFinding:
    """Return the finding that jobs would not run, or not well."""
    return CheckFinding(CheckState.FAILED, text, hint)


def compare_clocks(skew_s: float, by: str, with_: str = "this machine") -> CheckFinding:
    """Return whether a clock agrees with another one; ``skew_s`` is how far it is ahead of that.

    ``by`` says what was compared.
    """
    if abs(skew_s) <= _MOST_SKEW_S:
        return ok(f"agrees with that of {with_} within {max(1, round(abs(skew_s)))} s ({by})")
    way = "ahead of" if skew_s > 0 else "behind"
    return failed(
        f"is {abs(skew_s):.0f} s {way} that of {with_} ({by})",
        "set both clocks by NTP: ages of files, tokens and the times that ytf shows are wrong "
        "otherwise",
    )
