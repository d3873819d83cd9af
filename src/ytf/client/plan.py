"""From what the user asked to what will be submitted. Pure but for looking at files."""

from __future__ import annotations

import msgspec

from ytf.specs.job import JobSpec


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory that travels with the job."""

    source: str
    """Absolute path at the submitter's."""
    name: str
    """Its name in each task's working directory."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A submission, ready to be sent; ``--dryrun`` prints it.

    ``spec`` is resolved: TensorBoard is a group with a command, paths are
    absolute, defaults are in place. ``notes`` are for the user's eyes.
    """

    spec: JobSpec
    backend: str
    user: str
    uploads: tuple[Upload, ...] = ()
    notes: tuple[str, ...] = ()
