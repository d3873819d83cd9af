"""Options of ``ytf-submit`` that say something of all groups, or of one: ``[<group>:]<value>``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

import msgspec

from ytf.errors import SpecError
from ytf.specs.job import TENSORBOARD, OnFailure, Placement, TaskGroupSpec
from ytf.specs.wording import did_you_mean

_CHOICE = TypeVar("_CHOICE", bound=Enum)

Groups = dict[str, TaskGroupSpec]


def with_policies(groups: Groups, on_failure: Sequence[str], max_restarts: Sequence[str]) -> Groups:
    """The groups with what ``--on_failure`` and ``--max_restarts`` say of them."""
    policies = {
        group: _one_of(OnFailure, "policy", "--on_failure", text)
        for group, text in _by_group("--on_failure", on_failure, groups)
    }
    restarts = {
        group: _count(text) for group, text in _by_group("--max_restarts", max_restarts, groups)
    }
    changed = {}
    for name, group in groups.items():
        # What is said of all groups is not meant for TensorBoard, which has a policy of its own.
        general = name if name == TENSORBOARD else None
        policy = policies.get(name, policies.get(general))
        if policy is not None:
            group = msgspec.structs.replace(group, on_failure=policy)
        count = restarts.get(name, restarts.get(general))
        if count is not None:
            group = msgspec.structs.replace(group, max_restarts=count)
        changed[name] = group
    return changed


def untracked(groups: Groups, names: Sequence[str]) -> Groups:
    """The groups with those that ``--untracked`` names not ending the job."""
    changed = dict(groups)
    for name in (part for value in names for part in value.split(",")):
        if name not in groups:
            raise SpecError(
                f"there is no task group {name!r} in the requirement",
                where="--untracked",
                hint=did_you_mean(name, groups),
            )
        changed[name] = msgspec.structs.replace(groups[name], tracked=False)
    return changed


def with_labels(groups: Groups, values: Sequence[str]) -> Groups:
    """The groups with the labels of their own that ``--node_label`` gives."""
    own = dict(_by_group("--node_label", values, groups))
    return {
        name: msgspec.structs.replace(group, node_label=own[name]) if name in own else group
        for name, group in groups.items()
    }


def with_placements(groups: Groups, values: Sequence[str]) -> tuple[Groups, Placement | None]:
    """The groups placed in a way of their own, and the way of the others, of ``--placement``."""
    own = {
        group: _one_of(Placement, "placement", "--placement", text)
        for group, text in _by_group("--placement", values, groups)
    }
    general = own.pop(None, None)
    changed = {
        name: msgspec.structs.replace(group, placement=own[name]) if name in own else group
        for name, group in groups.items()
    }
    return changed, general


def _by_group(
    option: str, values: Sequence[str], groups: Mapping[str, TaskGroupSpec]
) -> list[tuple[str | None, str]]:
    """Split ``[group:]value``; None is everyone."""
    seen: dict[str | None, str] = {}
    for value in values:
        name, colon, text = value.rpartition(":")
        group = name if colon else None
        where = f"{option} {value!r}"
        if group is not None and group not in groups:
            raise SpecError(
                f"there is no task group {group!r} in the requirement",
                where=where,
                hint=did_you_mean(group, groups),
            )
        if group in seen:
            raise SpecError(f"duplicate: {group or 'every group'} has one already", where=where)
        seen[group] = text
    return list(seen.items())


def _one_of(kind: type[_CHOICE], noun: str, option: str, text: str) -> _CHOICE:
    words = [str(choice.value) for choice in kind]
    if text not in words:
        raise SpecError(
            f"there is no {noun} {text!r}", where=option, hint=did_you_mean(text, words)
        )
    return kind(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise SpecError(f"{text!r} is not a number of restarts", where="--max_restarts")
    return int(text)
