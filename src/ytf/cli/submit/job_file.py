"""``ytf submit FILE``: makes a job spec from a YAML or JSON file and submits it."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from ytf.cli.main import PROG
from ytf.cli.submit.options import gpus_per_node, overrides_from_settings, priority, tags
from ytf.cli.submit.submit_spec import submit_spec
from ytf.client import settings
from ytf.errors import SettingsError, SpecError
from ytf.specs import codec
from ytf.specs.grammar import Place, Quantity
from ytf.specs.job import TENSORBOARD

_FIELDS = (
    *("queue", "name", "env", "python", "framework"),
    *("acl_view", "acl_modify", "node_label", "task_ports", "control_ports"),
)
"""Fields of a spec that are taken from the setting of the same name if the file lacks them."""
_RESOURCES = {Quantity.MEMORY: "memory", Quantity.VCORES: "vcores"}


def submit_file(args: Namespace) -> int:
    """Submit the job of a file. Options win over the file, the file wins over other settings."""
    chosen = settings.load({"backend": args.backend})
    flags = {"name": args.name, "queue": args.queue}
    data = _read(args.file)
    if isinstance(data, dict):
        defaults: dict[str, object] = {
            key: chosen.get(key) for key in _FIELDS if chosen.get(key) is not None
        }
        if chosen.get("priority") is not None:
            defaults["priority"] = priority(chosen)
        if chosen.get("gpus_per_node") is not None:
            defaults["gpus_per_node"] = gpus_per_node(chosen)
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
    return submit_spec(
        PROG,
        spec,
        chosen,
        wait=args.wait,
        logs=args.logs,
        dryrun=args.dryrun,
        json=args.json,
        base=settings.working_directory() if args.file == "-" else _folder(args.file),
    )


def _folder(file: str) -> Path:
    return (settings.working_directory() / file).parent


def _with_resources(
    groups: dict[object, object], chosen: settings.Settings
) -> dict[object, object]:
    """The groups with memory and vcores of the settings where the file gives none.

    Data of a wrong shape is left as it is: the codec refuses it.
    """
    counts = {
        name: group["count"]
        for name, group in groups.items()
        if isinstance(name, str) and isinstance(group, dict) and type(group.get("count")) is int
    }
    changed = dict(groups)
    for quantity, field in _RESOURCES.items():
        overrides = overrides_from_settings(quantity, chosen, counts)
        # The most specific override comes last, so that it wins.
        for place in sorted(overrides, key=lambda place: (place.group or "", place.index or -1)):
            # An amount for all tasks is meant for the user's own tasks.
            own_groups = [name for name in counts if name != TENSORBOARD]
            for name in own_groups if place.group is None else [place.group]:
                if not _gives(groups[name], "resources", field):
                    changed[name] = _with_amount(changed[name], place, field, overrides[place])
    return changed


def _with_amount(group: object, place: Place, field: str, amount: int) -> object:
    """A group in which the group, or one task of it, is given an amount."""
    if not isinstance(group, dict):
        return group
    if place.index is None:
        given = group.get("resources", {})
        return {**group, "resources": {**given, field: amount}}
    overrides = group.get("overrides", {})
    if not isinstance(overrides, dict):
        return group
    key = str(place.index) if str(place.index) in overrides else place.index
    if _gives(overrides, key, field):
        return group
    return {**group, "overrides": {**overrides, key: {**overrides.get(key, {}), field: amount}}}


def _gives(data: object, key: object, field: str) -> bool:
    """Whether the mapping under a key has a field; true also if it is no mapping."""
    found = data.get(key, {}) if isinstance(data, dict) else data
    return not isinstance(found, dict) or field in found


def _read(file: str) -> object:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as exc:
        raise SettingsError(f"cannot read {file}: {exc.strerror}") from exc
    try:
        # JSON is YAML, but the JSON parser reports better where a comma is missing.
        if file.endswith(".json"):
            return codec.read_json(content)
        from ytf.specs.yaml_builder import read_yaml

        return read_yaml(content)
    except SpecError as error:
        raise SpecError(str(error), where=file, hint=error.hint) from error
