"""``ytf submit FILE``: a job from a YAML or JSON file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from ytf.cli import submission
from ytf.cli.main import PROG
from ytf.client import settings
from ytf.errors import SettingsError, SpecError
from ytf.specs import codec, text

_FIELDS = {"queue": "queue", "name": "name", "env": "environment", "framework": "framework"}
"""Which field of a spec a setting stands in for, where the file does not have it."""


def submit_file(args: Namespace) -> int:
    """Submit what a file describes; options win over the file, the file over other settings."""
    chosen = settings.load({"backend": args.backend})
    flags = {"name": args.name, "queue": args.queue}
    data = _read(args.file)
    if isinstance(data, dict):
        defaults = {
            field: chosen.get(key) for key, field in _FIELDS.items() if chosen.get(key) is not None
        }
        given = {key: value for key, value in flags.items() if value is not None}
        data = {**defaults, **data, **given}
    try:
        spec = codec.from_dict(data)
    except SpecError as error:
        raise SpecError(str(error), where=args.file, hint=error.hint) from error
    return submission.submit(
        PROG,
        spec,
        chosen,
        wait=args.wait,
        dryrun=args.dryrun,
        json=args.json,
        base=Path.cwd() if args.file == "-" else Path(args.file).absolute().parent,
    )


def _read(file: str) -> object:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as exc:
        raise SettingsError(f"cannot read {file}: {exc.strerror}") from exc
    try:
        # YAML holds JSON, but JSON's own reader says better where a comma is missing.
        return text.read_json(content) if file.endswith(".json") else text.read_yaml(content)
    except SpecError as error:
        raise SpecError(str(error), where=file, hint=error.hint) from error
