"""Checks what jobs need, for ``ytf doctor``: this machine, then the backend, then a small job."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata

from ytf import backends
from ytf.backends.api import Notify, ignore_notice
from ytf.backends.checks import Check, CheckFinding, failed, note, ok
from ytf.client.probe_job import HoldInterrupts, no_hold, run_probe_job
from ytf.client.settings import FILE, Settings, choose_backend, load
from ytf.errors import SettingsError
from ytf.home import home, make_private_directory
from ytf.specs.amounts import format_bytes
from ytf.specs.checks import CheckName
from ytf.specs.job import JobSpec

_LEAST_FREE = 100_000_000
"""Bytes on the disk of ``YTF_HOME`` without which jobs hardly run."""
_LITTLE_FREE = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """What is to be checked: None is what a submission would use."""

    backend: str | None = None
    queue: str | None = None
    runs_job: bool = True
    notify: Notify = ignore_notice
    """Gets the progress of the job."""
    hold: HoldInterrupts = no_hold


def make_checks(request: DoctorRequest, environ: Mapping[str, str] | None = None) -> list[Check]:
    """All checks in their order. Where the backend is not known, only those of this machine."""
    machine = _Machine(request, os.environ if environ is None else environ)
    checks = [
        Check(name=CheckName.YTF, run=_check_version),
        Check(name=CheckName.HOME, run=machine.check_home),
        Check(name=CheckName.SETTINGS, run=machine.check_settings),
        Check(name=CheckName.BACKEND, run=machine.check_backend, needs=(CheckName.SETTINGS,)),
    ]
    try:
        settings = machine.load_settings()
        chosen = choose_backend(settings, environ=machine.environ)
    except SettingsError:
        return checks  # one of those above says what is wrong
    of_backend = backends.get_checks(
        chosen.name,
        queue=settings.get("queue") or _default_queue(),
        python=settings.get("python"),
        docker_engine=settings.get("docker_engine"),
    )
    checks += of_backend.checks
    if request.runs_job:
        job = of_backend.job
        run = partial(run_probe_job, chosen.name, job, request.notify, request.hold)
        checks.append(Check(name=CheckName.TEST_JOB, run=run, needs=job.needs, limit_s=None))
    return checks


class _Machine:
    """The checks of this machine, and the settings that decide on the others."""

    def __init__(self, request: DoctorRequest, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self._flags = {"backend": request.backend, "queue": request.queue}

    def load_settings(self, notify: Notify = ignore_notice) -> Settings:
        """The settings in force; raises ``SettingsError``."""
        return load(self._flags, environ=self.environ, notify=notify)

    def check_home(self) -> CheckFinding:
        """Look at the directory, make it if it is missing, and write to it."""
        path = home(self.environ)
        try:
            make_private_directory(path)
            with tempfile.TemporaryFile(dir=path) as file:
                file.write(b"x")
                file.flush()
        except OSError as exc:
            return failed(
                f"{path} cannot be written: {exc.strerror}",
                "make room or check its permissions, or set YTF_HOME to another directory",
            )
        free = shutil.disk_usage(path).free
        text = f"{path} is yours and can be written; {format_bytes(free)} are free"
        if free < _LEAST_FREE:
            return failed(text, "make room: `ytf gc --older-than 1d` removes records and logs")
        return note(text, "a job's logs and layers need room") if free < _LITTLE_FREE else ok(text)

    def check_settings(self) -> CheckFinding:
        """Tell which files count, and what was ignored."""
        ignored: list[str] = []
        settings = self.load_settings(ignored.append)
        files = ", ".join(map(str, settings.files))
        text = f"read {files}" if files else f"there is no {FILE}: all have their defaults"
        if ignored:
            return note("; ".join([text, *ignored]), "what was ignored has no effect")
        return ok(text)

    def check_backend(self) -> CheckFinding:
        """Tell where jobs would run."""
        chosen = choose_backend(self.load_settings(), environ=self.environ)
        return ok(f"{chosen.name} ({chosen.reason})")


def _check_version() -> CheckFinding:
    return ok(
        f"version {metadata.version('ytf')} on Python {platform.python_version()} "
        f"({sys.executable})"
    )


def _default_queue() -> str:
    return JobSpec(groups={}).queue
