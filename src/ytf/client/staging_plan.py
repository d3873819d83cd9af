"""Resolves what a job stages in and out: paths of this machine are for the local backend."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ytf.errors import SpecError, shown
from ytf.specs.job import CheckpointSync, JobSpec, StageIn, StageOut, is_url
from ytf.specs.staging import has_wildcard


def resolve_staging(spec: JobSpec, backend: str, base: Path) -> JobSpec:
    """The job with absolute paths, relative ones being those of ``base``.

    Raises ``SpecError`` for a path of this machine that other nodes do not have, and for
    one that does not exist.
    """

    def inputs(given: tuple[StageIn, ...], where: str) -> tuple[StageIn, ...]:
        return tuple(
            msgspec.structs.replace(
                each, source=_resolved(each.source, backend, base, f"{where}stage_in", True)
            )
            for each in given
        )

    def outputs(given: tuple[StageOut, ...], where: str) -> tuple[StageOut, ...]:
        return tuple(
            msgspec.structs.replace(
                each, to=_resolved(each.to, backend, base, f"{where}stage_out", False)
            )
            for each in given
        )

    def sync(given: CheckpointSync | None, where: str) -> CheckpointSync | None:
        if given is None:
            return None
        to = _resolved(given.to, backend, base, f"{where}checkpoint_sync", False)
        return msgspec.structs.replace(given, to=to)

    groups = {
        name: msgspec.structs.replace(
            group,
            stage_in=inputs(group.stage_in, f"groups.{name}."),
            stage_out=outputs(group.stage_out, f"groups.{name}."),
            checkpoint_sync=sync(group.checkpoint_sync, f"groups.{name}."),
        )
        for name, group in spec.groups.items()
    }
    return msgspec.structs.replace(
        spec,
        groups=groups,
        stage_in=inputs(spec.stage_in, ""),
        stage_out=outputs(spec.stage_out, ""),
        checkpoint_sync=sync(spec.checkpoint_sync, ""),
    )


def _resolved(path: str, backend: str, base: Path, where: str, must_exist: bool) -> str:
    if path.startswith(("hdfs://", "viewfs://")):
        return path
    if backend != "local":
        raise SpecError(
            f"{shown(path)} is on this machine, and the tasks run on others",
            where=where,
            hint="use an hdfs:// URL; --files ships files of this machine",
        )
    if is_url(path):
        return path
    place = os.path.normpath(base / path)
    if must_exist and not has_wildcard(path) and not os.path.exists(place):
        raise SpecError(f"there is no {place}", where=where)
    return place
