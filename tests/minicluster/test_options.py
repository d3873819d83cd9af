from __future__ import annotations

import re

import pytest

from ytf.errors import SpecError
from ytf.minicluster import ClusterOptions, Queue
from ytf.minicluster.options import check_name, parse_labels, parse_property, parse_queues


def test_queues() -> None:
    assert parse_queues("default:60,ml:40") == (Queue("default", 60), Queue("ml", 40))
    assert parse_queues("research") == (Queue("research", 100),)


@pytest.mark.parametrize("text", ["", "a:b", "a:1:2", "a:50,", ":100", "a:-5", "a,b"])
def test_what_is_no_list_of_queues(text: str) -> None:
    with pytest.raises(SpecError, match=r"--queues: .* is not <queue>:<per cent>"):
        parse_queues(text)


def test_labels() -> None:
    assert parse_labels("gpu=nm2,big=nm1") == {"nm2": "gpu", "nm1": "big"}
    with pytest.raises(SpecError, match=r"is not <label>=<node>"):
        parse_labels("gpu")
    with pytest.raises(SpecError, match=r"nm1 cannot have two labels"):
        parse_labels("a=nm1,b=nm1")


def test_properties() -> None:
    assert parse_property("yarn.x=a=b") == ("yarn.x", "a=b")
    assert parse_property("x=") == ("x", "")
    with pytest.raises(SpecError, match=r"-D"):
        parse_property("x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "--nodes: 0 is not between 1 and 64"),
        ({"node_memory_mb": 1}, "--memory"),
        ({"node_vcores": 0}, "--vcores"),
        ({"gpus": -1}, "--gpus"),
        ({"heap_mb": 1}, "--heap"),
        ({"version": "latest"}, "--hadoop: 'latest' is not a release"),
        ({"queues": ()}, "--queues: each queue must be named once"),
        ({"queues": (Queue("a", 50), Queue("a", 50))}, "--queues: each queue must be named once"),
        ({"queues": (Queue("a", 50), Queue("b", 49))}, "shares are 99 % together, not 100"),
        ({"queues": (Queue("root", 100),)}, "'root' is not a name of a queue"),
        ({"queues": (Queue("a.b", 100),)}, "'a.b' is not a name of a queue"),
        ({"labels": {"nm3": "gpu"}}, "--labels: there is no node nm3"),
        ({"labels": {"nm1": "g p u"}}, "'g p u' is not a label"),
    ],
)
def test_what_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        ClusterOptions(**options)  # type: ignore[arg-type]  # the wrong values are the point


def test_a_pair_brings_its_zookeeper() -> None:
    assert ClusterOptions(ha=True).has_zookeeper
    assert not ClusterOptions().has_zookeeper


def test_a_name_becomes_a_directory() -> None:
    assert check_name("a.b-c_1") == "a.b-c_1"
    for wrong in ("", ".", "..", "a/b", ".hidden", "a b", "-x"):
        with pytest.raises(SpecError, match=r"--name"):
            check_name(wrong)
