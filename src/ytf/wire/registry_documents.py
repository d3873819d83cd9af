"""The documents of a job in ZooKeeper, which starters and masters write and read.

Two kinds: a *component* says where one task is reached, the *instance* of a job
where all are. Their keys are those of Hadoop's service records (``type``,
``yarn:id``, ``yarn:persistence``; an attribute of such a record is a string), then
``task_…`` and ``DTF_<GROUP>_HOSTS``, then ours, ``ytf_…``.

Everybody may be able to write to a ZooKeeper. So each document is signed with the
job's secret, and whoever reads one gets None for what is not signed, is of
another job or container, or is not what it should be.
"""

from __future__ import annotations

import json

from ytf.wire.address import split_url
from ytf.wire.untrusted import as_text, read_int, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional

    from ytf.wire.signing import Signer

COMPONENTS = "components"
"""The znode below a job's that holds the znodes of its tasks."""
LONGEST_COMPONENT = 4096
LONGEST_INSTANCE = 1000 * 1000
"""The most bytes of each. ZooKeeper takes no more than 1 MiB in one message (jute.maxbuffer)."""

_COMPONENT = "component"
_INSTANCE = "instance"
_SIGNATURE = "ytf_signature"
_LONGEST_NAME = 300

_RECORD = {"type": "JSONServiceRecord", "external": [], "internal": []}


class Component:
    """Where one attempt of a task is reached. ``port`` is None if it has none."""

    __slots__ = ("attempt", "control", "group", "host", "index", "port")

    def __init__(
        self,
        *,
        group: str,
        index: int,
        attempt: int,
        host: str,
        port: Optional[int],
        control: Optional[str],
    ) -> None:
        self.group = group
        self.index = index
        self.attempt = attempt
        self.host = host
        self.port = port
        self.control = control


class Instance:
    """Where all tasks of a job are reached: a cluster spec."""

    __slots__ = ("generation", "members", "revision")

    def __init__(self, generation: int, revision: int, members: Dict[str, List[str]]) -> None:
        self.generation = generation
        self.revision = revision
        self.members = members


def write_component(component: Component, *, job: str, container: str, signer: Signer) -> bytes:
    """Encode and sign where a task is reached."""
    return _signed(
        _COMPONENT,
        {
            "yarn:id": container,
            "yarn:persistence": "container",
            "description": "%s:%d of %s" % (component.group, component.index, job),
            "task_job_name": component.group,
            "task_job_index": str(component.index),
            "task_port": "" if component.port is None else str(component.port),
            "ytf_host": component.host,
            "ytf_control": component.control or "",
            "ytf_attempt": str(component.attempt),
            "ytf_job": job,
        },
        signer,
    )


def read_component(data: bytes, *, job: str, container: str, signer: Signer) -> Optional[Component]:
    """Return where a task of ``job`` in ``container`` is reached; None if it is not signed."""
    record = _read(_COMPONENT, data, LONGEST_COMPONENT, signer)
    if record is None or record.get("ytf_job") != job or record.get("yarn:id") != container:
        return None
    try:
        control = record["ytf_control"]
        if control:
            split_url("http://" + control)
        port = record["task_port"]
        return Component(
            group=as_text(record["task_job_name"], _LONGEST_NAME),
            index=read_int(record["task_job_index"]),
            attempt=read_int(record["ytf_attempt"]),
            host=as_text(record["ytf_host"], _LONGEST_NAME),
            port=read_int(port, 1, 65535) if port else None,
            control=control or None,
        )
    except (ValueError, KeyError, TypeError):
        return None


def write_instance(instance: Instance, *, job: str, name: str, signer: Signer) -> bytes:
    """Encode and sign a cluster spec."""
    hosts = {
        "DTF_%s_HOSTS" % group.upper(): ",".join(members)
        for group, members in instance.members.items()
    }
    return _signed(
        _INSTANCE,
        {
            "yarn:id": job,
            "yarn:persistence": "application",
            "description": name,
            **hosts,
            "ytf_groups": ",".join(instance.members),
            "ytf_generation": str(instance.generation),
            "ytf_revision": str(instance.revision),
        },
        signer,
    )


def read_instance(data: bytes, *, job: str, signer: Signer) -> Optional[Instance]:
    """Return the cluster spec of a job; None if no master of the job wrote it."""
    record = _read(_INSTANCE, data, LONGEST_INSTANCE, signer)
    if record is None or record.get("yarn:id") != job:
        return None
    try:
        groups = [each for each in record["ytf_groups"].split(",") if each]
        return Instance(
            read_int(record["ytf_generation"]),
            read_int(record["ytf_revision"]),
            {group: _hosts(record["DTF_%s_HOSTS" % group.upper()]) for group in groups},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _hosts(text: str) -> List[str]:
    return [as_text(each, _LONGEST_NAME) for each in text.split(",")] if text else []


def _signed(kind: str, record: Mapping[str, object], signer: Signer) -> bytes:
    whole = {**_RECORD, **record}
    whole[_SIGNATURE] = signer.sign_document(kind, _canonical(whole))
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _read(kind: str, data: bytes, longest: int, signer: Signer) -> Optional[Dict[str, str]]:
    if len(data) > longest:
        return None
    try:
        record = read_json(data)
        signature = as_text(record.pop(_SIGNATURE), 64)
        text = _canonical(record)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not signer.verify_document(kind, text, signature):
        return None
    found: Dict[str, str] = record
    return found


def _canonical(record: Mapping[str, object]) -> str:
    """Return one text for a record, however its JSON was written."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
