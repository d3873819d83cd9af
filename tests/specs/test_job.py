from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs.strategies import memory_mb
from ytf.errors import SpecError
from ytf.specs.job import (
    MAX_INT,
    JobSpec,
    Resources,
    TaskGroupSpec,
    format_memory,
    parse_memory,
)


@pytest.mark.parametrize(
    ("written", "mb"),
    [
        (2048, 2048),
        ("2048", 2048),
        ("2 GiB", 2048),
        ("2GB", 2048),
        ("2g", 2048),
        ("512m", 512),
        ("512 MB", 512),
        ("1.5g", 1536),
        ("0.5 GiB", 512),
        ("1t", 1024 * 1024),
        ("1024k", 1),
        ("1025KB", 2),
        ("1.1m", 2),
        ("007", 7),
        ("0" * 5000 + "1", 1),
        (MAX_INT, MAX_INT),
        (f"{MAX_INT}", MAX_INT),
        ("1.9999999999999999999999999999999999999g", 2048),
    ],
)
def test_memory_is_read_in_powers_of_1024_and_rounded_up(written: int | str, mb: int) -> None:
    assert parse_memory(written) == mb


@pytest.mark.parametrize(
    "written",
    [
        *(0, -1, MAX_INT + 1, 10**100),
        *("0", "0g", "0.0k", "-1", "-2 GiB", f"{MAX_INT + 1}", "2048t", "9" * 5000, "1" + "0" * 30),
        *("", " ", "g", "GiB 2", " 2g", "2g ", "2  g", "2\tg", "2\n", "1e3", "+2", "0x10", "1_000"),
        *("٢", "²", "2 Gi", "2 Gbit", "1.g", ".5g", "1,5g", "nan", "inf", "2p"),
    ],
)
def test_what_is_no_memory_is_refused_at_its_place(written: int | str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_memory(written, where="here")
    assert caught.value.where == "here"
    assert len(str(caught.value)) < 200


def test_a_wrong_unit_gets_the_right_one_suggested() -> None:
    with pytest.raises(SpecError) as caught:
        parse_memory("2 GiBi")
    assert caught.value.hint == "did you mean 'GiB'?"


@pytest.mark.parametrize(
    ("mb", "written"), [(1, "1 MiB"), (2048, "2 GiB"), (1536, "1536 MiB"), (2 << 20, "2 TiB")]
)
def test_memory_is_written_in_the_largest_exact_unit(mb: int, written: str) -> None:
    assert format_memory(mb) == written


@given(memory_mb)
def test_what_is_written_is_read_back(mb: int) -> None:
    assert parse_memory(format_memory(mb)) == mb
    assert parse_memory(str(mb)) == mb


@given(st.text() | st.from_regex(r"[-0-9. ]{1,12}[kmgtib]{0,3}") | st.integers())
def test_nothing_crashes_the_parser(written: int | str) -> None:
    with contextlib.suppress(SpecError):
        assert 1 <= parse_memory(written) <= MAX_INT


def test_resources_take_memory_as_a_number_of_mb_or_as_text() -> None:
    assert Resources(memory="4 GiB") == Resources(memory=4096) == Resources(memory="4096")
    assert Resources(memory="1.5g").memory_mb == 1536
    with pytest.raises(SpecError, match="memory: 'much' is not an amount of memory"):
        Resources(memory="much")


def _hidden(groups: dict[str, TaskGroupSpec], **fields: object) -> list[str]:
    spec = msgspec.structs.replace(JobSpec(groups=groups, command="x"), **fields)
    return [task for task in spec.tasks() if spec.hides_gpus(task)]


def test_who_only_serves_others_or_was_given_none_sees_no_gpus() -> None:
    plain, with_gpus = TaskGroupSpec(count=1), TaskGroupSpec(count=1, resources=Resources(gpus=1))
    assert _hidden({"worker": plain, "ps": plain, "evaluator": plain}) == ["ps:0", "evaluator:0"]
    assert _hidden({"worker": plain, "chief": with_gpus, "ps": with_gpus}) == ["worker:0"]
    one = TaskGroupSpec(count=2, overrides={1: Resources(gpus=1)})
    assert _hidden({"worker": one}) == ["worker:0"]
    own = {"CUDA_VISIBLE_DEVICES": "0"}
    assert _hidden({"ps": plain, "worker": with_gpus}, task_env=own) == []
