"""What ``ytf doctor`` checks of the local backend: confinement, a container engine, a small job."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ytf.backends.checks import BackendChecks, Check, CheckFinding, note, ok
from ytf.backends.local.loopback import UnsupportedError, confine_thread
from ytf.specs.checks import CheckName
from ytf.specs.job import Framework, JobSpec, MasterSpec, Resources, TaskGroupSpec, Timeouts
from ytf.specs.status import JobEvent, JobStatus
from ytf.starter.engine import EngineError, find_engine

_ENGINE_S = 35.0
"""Longer than the time that the engine's own calls have."""


def local_checks(engine: str | None) -> BackendChecks:
    """The checks of this machine; ``engine`` is the setting ``docker_engine``."""
    return BackendChecks(
        [
            Check(name=CheckName.LOOPBACK, run=_check_loopback),
            Check(name=CheckName.ENGINE, run=lambda: _check_engine(engine), limit_s=_ENGINE_S),
        ],
        LocalProbeJob(),
    )


def _check_loopback() -> CheckFinding:
    """Confine this thread, which ends with the check."""
    try:
        descriptor = confine_thread()
    except UnsupportedError as exc:
        return note(
            f"programs' servers can be reached from other machines: {exc}",
            "see docs/security.md; a firewall can close the ports",
        )
    if descriptor is not None:
        os.close(descriptor)
    return ok("only this machine reaches the servers of programs")


def _check_engine(asked: str | None) -> CheckFinding:
    try:
        engine = find_engine(asked, os.environb)
    except EngineError as exc:
        return note(str(exc), "needed for --docker_image only")
    return ok(f"{engine.kind} ({engine.client}) runs images")


class LocalProbeJob:
    """Implements ``ProbeJob``: one task that looks whether it has its port."""

    needs: tuple[CheckName, ...] = (CheckName.HOME,)
    limit_s = 60.0

    def spec(self) -> JobSpec:
        """Return the job, which needs no files."""
        return JobSpec(
            name="ytf doctor",
            groups={"worker": TaskGroupSpec(count=1, resources=Resources(memory=256))},
            command='test -n "$YTF_TASK_PORT"',
            framework=Framework.NONE,
            master=MasterSpec(max_attempts=1),
            timeouts=Timeouts(job_s=self.limit_s),
        )

    def conclude(
        self, status: JobStatus, events: Sequence[JobEvent], start_s: float
    ) -> CheckFinding:
        """Tell how long it took."""
        return ok(f"a job of one task ran; its program started after {start_s:.1f} s")

    def close(self) -> None:
        """Do nothing: the job has made nothing of its own."""
