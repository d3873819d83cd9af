"""The documents in ZooKeeper: docs/protocols.md §7 says what is in them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ytf.wire.registry_documents import (
    LONGEST_COMPONENT,
    LONGEST_INSTANCE,
    Component,
    Instance,
    read_component,
    read_instance,
    write_component,
    write_instance,
)
from ytf.wire.signing import Signer

SIGNER = Signer(b"secret")
COMPONENT = Component(
    group="worker", index=3, attempt=2, host="node7", port=2222, control="node7:4000"
)
MEMBERS = {"ps": ["h1:2222", "h2:2222"], "Worker": ["h3:2222"], "evaluator": []}


def component(**changes: Any) -> bytes:
    """A component, changed after it was signed."""
    written = json.loads(write_component(COMPONENT, job="j", container="c1", signer=SIGNER))
    written.update(changes)
    return json.dumps({k: v for k, v in written.items() if v is not None}).encode()


def read(data: bytes, container: str = "c1", job: str = "j") -> Component | None:
    return read_component(data, job=job, container=container, signer=SIGNER)


def test_a_component_says_what_the_seed_promises_as_strings() -> None:
    written = json.loads(component())
    assert written["task_job_name"] == "worker"
    assert written["task_job_index"] == "3"
    assert written["task_port"] == "2222"
    assert written["type"] == "JSONServiceRecord"
    assert (written["yarn:id"], written["yarn:persistence"]) == ("c1", "container")


def test_a_component_is_read_as_it_was_written() -> None:
    found = read(component())
    assert found is not None
    for name in Component.__slots__:
        assert getattr(found, name) == getattr(COMPONENT, name)
    without = Component(group="a", index=0, attempt=1, host="h", port=None, control=None)
    found = read(write_component(without, job="j", container="c1", signer=SIGNER))
    assert found is not None
    assert (found.port, found.control) == (None, None)


@pytest.mark.parametrize(
    "data",
    [
        component(task_port="2223"),
        component(ytf_host="evil"),
        component(ytf_attempt="3"),
        component(more="x"),
        component(ytf_signature=None),
        component(ytf_signature="0" * 64),
        component(ytf_signature="é"),
        component(ytf_signature=7),
        write_component(COMPONENT, job="j", container="c1", signer=Signer(b"another")),
        write_component(COMPONENT, job="other", container="c1", signer=SIGNER),
        write_component(COMPONENT, job="j", container="c2", signer=SIGNER),
        write_instance(Instance(1, 1, {}), job="j", name="n", signer=SIGNER),
        component().replace(b"{", b"{" + b" " * LONGEST_COMPONENT, 1),
        b"",
        b"[]",
        b"7",
        b"\xff",
        b"[" * 1000,
        b'{"ytf_signature": "x"}',
    ],
)
def test_what_others_write_is_no_component(data: bytes) -> None:
    assert read(data) is None


def test_an_instance_says_what_the_seed_promises() -> None:
    data = write_instance(Instance(4, 9, MEMBERS), job="j", name="größer\udcff", signer=SIGNER)
    written = json.loads(data)
    assert written["DTF_PS_HOSTS"] == "h1:2222,h2:2222"
    assert written["DTF_WORKER_HOSTS"] == "h3:2222"
    assert (written["yarn:id"], written["yarn:persistence"]) == ("j", "application")
    found = read_instance(data, job="j", signer=SIGNER)
    assert found is not None
    assert (found.generation, found.revision, found.members) == (4, 9, MEMBERS)


def test_what_others_write_is_no_instance() -> None:
    data = write_instance(Instance(4, 9, MEMBERS), job="j", name="n", signer=SIGNER)
    assert read_instance(data, job="another", signer=SIGNER) is None
    assert read_instance(data.replace(b"h3", b"h4"), job="j", signer=SIGNER) is None
    assert read_instance(component(), job="j", signer=SIGNER) is None
    assert read_instance(b"", job="j", signer=SIGNER) is None


def test_a_string_without_end_is_refused_before_it_takes_time() -> None:
    """Anybody can write it into the job's node, and each starter reads it."""
    unsigned = b"[]" * 40 + b'"' + b'\\"' * ((LONGEST_INSTANCE - 81) // 2)
    began = time.thread_time()
    assert read_instance(unsigned, job="j", signer=SIGNER) is None
    assert time.thread_time() - began < 30
