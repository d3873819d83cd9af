"""``ytf submit FILE``: a job from a YAML or JSON file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from ytf.cli import submission
from ytf.cli.main import PROG
from ytf.cli.options import priority, settled_overrides, tags
from ytf.client import settings
from ytf.errors import SettingsError, SpecError
from ytf.specs import codec, text
from ytf.specs.grammar import Place, Quantity
from ytf.specs.job import TENSORBOARD

_FIELDS = {
    "queue": "queue",
    "name": "name",
    "env": "environment",
    "python": "python",
    "framework": "framework",
    "acl_view": "acl_view",
    "acl_modify": "acl_modify",
    "node_label": "node_label",
}
"""Which field of a spec a setting stands in for, where the file does not have it."""
_RESOURCES = {Quantity.MEMORY: "memory", Quantity.VCORES: "vcores"}


def submit_file(args: Namespace) -> int:
    """Submit what a file describes; options win over the file, the file over other settings."""
    chosen = settings.load({"backend": args.backend})
    flags = {"name": args.name, "queue": args.queue}
    data = _read(args.file)
    if isinstance(data, dict):
        defaults: dict[str, object] = {
            field: chosen.get(key) for key, field in _FIELDS.items() if chosen.get(key) is not None
        }
        if chosen.get("priority") is not None:
            defaults["priority"] = priority(chosen)
        if chosen.get("tags") is not None:
            defaults["tags"] = list(tags(chosen))
        given = {key: value for key, value in flags.items() if value is not None}
        data = {**defaults, **data, **given}
        if isinstance(data.get("groups"), dict):
            data["groups"] = _with_resources(data["groups"], chosen)
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
        base=settings.working_directory() if args.file == "-" else _folder(args.file),
    )


def _folder(file: str) -> Path:
    return (settings.working_directory() / file).parent


def _with_resources(
    groups: dict[object, object], chosen: settings.Settings
) -> dict[object, object]:
    """The groups with the settled memory and vcores where the file says nothing of them.

    What has not the expected shape is left as it is, for the codec to refuse.
    """
    counts = {
        name: group["count"]
        for name, group in groups.items()
        if isinstance(name, str) and isinstance(group, dict) and type(group.get("count")) is int
    }
    changed = dict(groups)
    for quantity, field in _RESOURCES.items():
        settled = settled_overrides(quantity, chosen, counts)
        # The most specific last: it wins.
        for place in sorted(settled, key=lambda place: (place.group or "", place.index or -1)):
            # What is said of all tasks is meant for the user's own.
            everyone = [name for name in counts if name != TENSORBOARD]
            for name in everyone if place.group is None else [place.group]:
                if not _says(groups[name], "resources", field):
                    changed[name] = _settled(changed[name], place, field, settled[place])
    return changed


def _settled(group: object, place: Place, field: str, amount: int) -> object:
    """A group, or one task of it, given an amount that the file leaves open."""
    if not isinstance(group, dict):
        return group
    if place.index is None:
        given = group.get("resources", {})
        return {**group, "resources": {**given, field: amount}}
    overrides = group.get("overrides", {})
    if not isinstance(overrides, dict):
        return group
    key = str(place.index) if str(place.index) in overrides else place.index
    if _says(overrides, key, field):
        return group
    return {**group, "overrides": {**overrides, key: {**overrides.get(key, {}), field: amount}}}


def _says(data: object, key: object, field: str) -> bool:
    """Whether the mapping under a key has a field; what is no mapping has its say, too."""
    found = data.get(key, {}) if isinstance(data, dict) else data
    return not isinstance(found, dict) or field in found


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
