"""Resources among the records: comparisons, arithmetic and protobuf messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ytf.hadoop.proto.records_pb2 import Resource as Message
from ytf.hadoop.yarn.records import Resource, unknown_types

RESOURCES = st.builds(
    Resource,
    st.integers(0, 2**40),
    st.integers(0, 2**31 - 1),
    st.dictionaries(st.sampled_from(["yarn.io/gpu", "yarn.io/fpga"]), st.integers(0, 2**40)),
)


@given(RESOURCES)
def test_round_trip(resource: Resource) -> None:
    assert Resource.from_message(resource.to_message()) == resource


def test_memory_and_cores_are_not_told_twice() -> None:
    message = Message(memory_mb=1024, vcores=2)
    message.values.add(key="memory-mb", value=1024, units="Mi")
    message.values.add(key="vcores", value=2)
    message.values.add(key="yarn.io/gpu", value=1)
    message.values.add(key="disk", value=3, units="Gi")
    assert Resource.from_message(message) == Resource(
        1024, 2, {"yarn.io/gpu": 1, "disk": 3 * 2**30}
    )


def test_what_fits_and_what_is_too_much() -> None:
    room = Resource(4096, 4, {"yarn.io/gpu": 1})
    assert Resource(4096, 4, {"yarn.io/gpu": 1}).fits_in(room)
    assert Resource(1, 1).fits_in(room)
    assert Resource(5000, 1, {"yarn.io/gpu": 2}).excess_over(room) == {
        "memory-mb": (5000, 4096),
        "yarn.io/gpu": (2, 1),
    }
    assert not Resource(1, 1, {"yarn.io/fpga": 1}).fits_in(room)
    assert room - Resource(96, 1) == Resource(4000, 3, {"yarn.io/gpu": 1})


def test_types_that_a_cluster_would_drop_are_found() -> None:
    wanted = Resource(1, 1, {"yarn.io/gpu": 1, "made-up": 2})
    assert unknown_types(wanted, {"yarn.io/gpu": 4}) == ["made-up"]


def test_they_can_be_keys_and_sentences() -> None:
    one, other = Resource(1, 2, {"a": 3, "b": 4}), Resource(1, 2, {"b": 4, "a": 3})
    assert {one: "x"}[other] == "x"
    assert str(one) == "1 MB, 2 vcores, 3 a, 4 b"
