"""What a job may ask of a cluster and its queue, beyond the size of containers."""

from __future__ import annotations

import re

from ytf.errors import SpecError
from ytf.specs.job import JobSpec, Resources
from ytf.specs.units import MAX_INT
from ytf.specs.wording import shown, under

MAX_TAGS = 10
"""The most tags an application may have (``ApplicationSubmissionContextPBImpl``)."""
TAG = r"[!-+\--~]([ -+\--~]{0,98}[!-+\--~])?"
"""Up to 100 printable ASCII characters but the comma, which separates tags everywhere."""
LABEL = r"[0-9A-Za-z][0-9A-Za-z_-]{0,254}"
"""``NodeLabelUtil.checkAndThrowLabelName``."""
RESOURCE_NAME = r"([0-9A-Za-z.-]+/)?[A-Za-z][0-9A-Za-z_.-]*"
"""What a resource type may be called: ``yarn.io/fpga``, ``licences``."""

_NAMED = {"memory-mb": "memory", "memory": "memory", "vcores": "vcores", "yarn.io/gpu": "gpus"}
_ACL_FORMS = 'write users, then groups: "alice,bob admins", " admins", or "*" for everybody'


def check_wishes(spec: JobSpec) -> None:
    """Raise :class:`SpecError` for what no queue would understand."""
    if spec.priority is not None and not 0 <= spec.priority <= MAX_INT:
        raise SpecError(f"must be 0 to {MAX_INT}, not {shown(spec.priority)}", where="priority")
    _check_tags(spec.tags)
    for where, acl in (("acl_view", spec.acl_view), ("acl_modify", spec.acl_modify)):
        if acl is not None:
            _check_acl(acl, where)
    if spec.node_label is not None:
        check_label(spec.node_label, "node_label")


def check_label(label: str, where: str) -> None:
    """Raise :class:`SpecError` unless nodes may have this label; the empty one is none."""
    if label and re.fullmatch(LABEL, label) is None:
        raise SpecError(
            f"{shown(label)} cannot be a node's label",
            where=where,
            hint="a label is letters, digits, '-' and '_', and begins with a letter or digit",
        )


def check_other_resources(resources: Resources, path: str) -> None:
    """Raise :class:`SpecError` unless these are amounts of something with a name of its own."""
    for name, amount in resources.others.items():
        where = under(path, name)
        if name in _NAMED:
            raise SpecError(
                "has a field of its own", where=where, hint=f"give it as {_NAMED[name]}"
            )
        if re.fullmatch(RESOURCE_NAME, name) is None:
            raise SpecError(
                f"{shown(name)} cannot be the name of a resource",
                where=where,
                hint="names look like yarn.io/fpga",
            )
        if not 0 <= amount <= MAX_INT:
            raise SpecError(f"must be 0 to {MAX_INT}, not {shown(amount)}", where=where)


def _check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MAX_TAGS:
        raise SpecError(f"a job may have {MAX_TAGS} tags, not {len(tags)}", where="tags")
    for tag in tags:
        if re.fullmatch(TAG, tag) is None:
            raise SpecError(
                f"{shown(tag)} cannot be a tag",
                where="tags",
                hint="a tag is up to 100 printable ASCII characters without a comma",
            )


def _check_acl(acl: str, where: str) -> None:
    if not acl.isprintable() or not 1 <= len(acl.split()) <= 2:
        raise SpecError(f"{shown(acl)} is not understood", where=where, hint=_ACL_FORMS)
