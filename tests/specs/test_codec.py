from __future__ import annotations

import contextlib
import json
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.specs.strategies import job_specs
from tests.specs.yaml_codec import EXAMPLE_YAML, from_yaml, to_yaml
from ytf.errors import SpecError
from ytf.specs import codec
from ytf.specs.job import (
    Framework,
    JobSpec,
    MasterSpec,
    OnFailure,
    Resources,
    TaskGroupSpec,
    Timeouts,
)
from ytf.specs.yaml_builder import read_yaml

EXAMPLE = JobSpec(
    name="mnist",
    command="python train.py",
    output="/tmp/out",
    tensorboard=True,
    framework=Framework.NONE,
    task_env={"COUNTRY": "no", "LEVEL": "3"},
    timeouts=Timeouts(job_s=1000.0),
    master=MasterSpec(resources=Resources(memory=512, vcores=2)),
    groups={
        "ps": TaskGroupSpec(count=1, resources=Resources(memory=2048, vcores=2)),
        "worker": TaskGroupSpec(
            count=4,
            on_failure=OnFailure.RESTART_JOB,
            resources=Resources(memory=2048, vcores=2, gpus=1),
            overrides={0: Resources(memory=4096, vcores=2, gpus=1)},
        ),
    },
)


def test_yaml_is_read_as_people_mean_it() -> None:
    assert from_yaml(textwrap.dedent(EXAMPLE_YAML)) == EXAMPLE


def test_output_leaves_out_what_is_by_default_or_inherited() -> None:
    assert codec.to_dict(EXAMPLE) == {
        "groups": {
            "ps": {"count": 1, "resources": {"memory": 2048, "vcores": 2}},
            "worker": {
                "count": 4,
                "resources": {"memory": 2048, "vcores": 2, "gpus": 1},
                "overrides": {0: {"memory": 4096}},
                "on_failure": "restart-job",
            },
        },
        "command": "python train.py",
        "name": "mnist",
        "output": "/tmp/out",
        "task_env": {"COUNTRY": "no", "LEVEL": "3"},
        "framework": "none",
        "tensorboard": True,
        "timeouts": {"job_s": 1000.0},
        "master": {"resources": {"vcores": 2}},
    }


def test_decoding_does_not_change_what_it_is_given() -> None:
    data = {
        "groups": {"worker": {"count": 1, "resources": {"memory": "2g"}, "overrides": {"0": {}}}},
        "command": "true",
    }
    before = json.dumps(data)
    assert codec.from_dict(data).groups["worker"].overrides == {0: Resources(memory=2048)}
    assert json.dumps(data) == before


def test_variables_of_single_tasks_are_read_by_index() -> None:
    group = {"count": 2, "task_env_overrides": {"1": {"SEED": "7"}}}
    spec = codec.from_dict({"groups": {"a": group}, "command": "x"})
    assert spec.groups["a"].task_env_overrides == {1: {"SEED": "7"}}
    assert codec.from_json(codec.to_json(spec)) == spec


def in_order(spec: JobSpec) -> list[object]:
    return [list(spec.groups), list(spec.files.items()), list(spec.task_env.items())]


@given(job_specs())
def test_an_encoded_spec_decodes_to_an_equal_one(spec: JobSpec) -> None:
    for decoded in (
        codec.from_dict(codec.to_dict(spec)),
        codec.from_json(codec.to_json(spec)),
        from_yaml(to_yaml(spec).encode()),
    ):
        assert decoded == spec
        assert in_order(decoded) == in_order(spec)


def test_json_is_yaml() -> None:
    assert from_yaml(codec.to_json(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize(
    ("text", "where", "says", "hint"),
    [
        ("", None, "empty", "groups:"),
        ("[1]", None, "expected a mapping, got a list", None),
        ("command: x", "groups", "is missing", None),
        ("comand: x", "comand", "no such field", "did you mean 'command'?"),
        ("1: x", "1", "expected text, got 1", None),
        ("groups: 1", "groups", "expected a mapping, got 1", None),
        ("groups: {worker: {}}", "groups.worker.count", "is missing", None),
        ("groups: {worker: {cuont: 2}}", "groups.worker.cuont", "no such", "did you mean 'count'?"),
        ("groups: {worker: {count: 2.0}}", "groups.worker.count", "a whole number, got 2.0", None),
        ("groups: {worker: {count: true}}", "groups.worker.count", "whole number, got true", None),
        ("groups: {worker: {count: '2'}}", "groups.worker.count", "whole number, got '2'", None),
        ("groups: {worker: {count: 010}}", "groups.worker.count", "whole number, got '010'", None),
        ("groups: {worker: {count: }}", "groups.worker.count", "whole number, got nothing", None),
        (
            "groups: {a: {count: 1}, b: {count: 1, on_failure: restart}}",
            "groups.b.on_failure",
            "expected 'fail-job', 'restart-task', 'restart-job' or 'ignore', got 'restart'",
            "did you mean 'restart-",
        ),
        (
            "groups: {a: {count: 1, resources: {memory: 2 gbi}}}",
            "groups.a.resources.memory",
            "not a unit",
            "did you mean 'GB'?",
        ),
        (
            "groups: {a: {count: 1, resources: {memory: 2.5}}}",
            "groups.a.resources.memory",
            "a whole number, got 2.5",
            None,
        ),
        (
            "groups: {a: {count: 1, overrides: {0: {memory: -1}}}}\ncommand: x",
            "groups.a.overrides.0.memory",
            "more than 0",
            None,
        ),
        (
            "groups: {a: {count: 1, overrides: {x: {}}}}",
            "groups.a.overrides.x",
            "expected a whole number, got 'x'",
            None,
        ),
        (
            "groups: {a: {count: 1, overrides: {0: {}, '0': {}}}}",
            "groups.a.overrides",
            "duplicate",
            None,
        ),
        (
            "groups: {a: {count: 1}}\ntask_env: {A: 1}",
            "task_env.A",
            "expected text, got 1",
            "quotes",
        ),
        ("groups: {a: {count: 1}}\ntimeouts: {job_s: .nan}", "timeouts.job_s", "finite", None),
        ("groups: {a: {count: 1}}\ntimeouts: {job_s: -.inf}", "timeouts.job_s", "finite", None),
        ("groups: {a: {count: 1, min: 2}}", "groups.a.min", "count, which is 1", None),
        ("a: 1\nb:\n  c: 1\n  c: 2", "line 4, column 3", "duplicate: the key 'c'", None),
        ("a: ]", "line 1, column 4", "not YAML", None),
        ("a: b: c", "line 1, column 5", "not YAML: mapping values", None),
        ("? [a]\n: b", "line 1, column 3", "a key must be", None),
        ("a: !!python/name:os.system x", "line 1, column 4", "have no meaning", None),
        ("a: 1\n--- \nb: 1", "line 2, column 1", "more than one document", None),
        ("a: *b", "line 1, column 4", "no anchor 'b'", None),
        ("a: &a [*a]", "line 1, column 8", "no anchor 'a' ends before", None),
        ("<<: 3", "line 1, column 5", "only mappings", None),
        ("a: " + "9" * 5000, None, "5000 digits", None),
        ("[" * 100_000, "line 1, column 33", "nested too deeply", None),
        ("a: \x00", None, "not YAML", None),
        ("\ud800", None, "UTF-8", None),
    ],
)
def test_wrong_yaml_is_refused_at_its_place(
    text: str, where: str | None, says: str, hint: str | None
) -> None:
    with pytest.raises(SpecError) as caught:
        from_yaml(text)
    assert caught.value.where == where
    assert says in str(caught.value)
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1, column 1: not JSON"),
        ('{"groups": {}, "groups": {}}', "duplicate: the key 'groups'"),
        ('{"groups": NaN}', "NaN is not a number"),
        ('{"groups": -Infinity}', "-Infinity is not a number"),
        ('{"groups": {"a": {"count": 1e400}}}', "groups.a.count: expected a whole number, got inf"),
        ('{"groups": ' + "9" * 5000, "5000 digits"),
        ("[" * 200_000, "nested too deeply"),
        ('{"name": "\\ud800", "groups": {"a": {"count": 1}}}', "name: has a character"),
        (
            '{"groups": {"a": {"count": 1, "overrides": {"01": {}}}}}',
            "groups.a.overrides.01: expected a whole number, got '01'",
        ),
    ],
)
def test_wrong_json_is_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        codec.from_json(text)
    assert says in str(caught.value)


def test_the_same_index_twice_is_a_duplicate() -> None:
    overrides: dict[object, object] = {0: {}, "0": {}}
    with pytest.raises(SpecError, match="duplicate: task 0"):
        codec.from_dict({"groups": {"a": {"count": 1, "overrides": overrides}}, "command": "x"})


def test_text_that_is_no_utf8_is_refused() -> None:
    for read in (codec.from_json, from_yaml):
        with pytest.raises(SpecError, match="not UTF-8"):
            read(b"\xff\xfe")


def test_an_alias_bomb_ends_in_an_error() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(40)]
    with pytest.raises(SpecError, match="aliases written out"):
        from_yaml("\n".join(lines))


def test_aliases_of_a_long_text_count_as_copies_of_it() -> None:
    copies = "".join("\n- *a" for _ in range(1000))
    with pytest.raises(SpecError, match="aliases written out"):
        read_yaml(f"- &a {'x' * 100_000}{copies}")


def test_large_numbers_cannot_be_keys() -> None:
    """All multiples of this prime have the same hash."""
    with pytest.raises(SpecError, match="a number this large cannot be a key"):
        read_yaml(f"{3 * (2**61 - 1)}: 1")


def test_the_work_of_merges_is_proportional_to_their_number() -> None:
    def calls(merges: int) -> int:
        text = "a: &a {x: 1}\nb:\n" + "  <<: *a\n" * merges
        count = 0

        def note(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            assert read_yaml(text) == {"a": {"x": 1}, "b": {"x": 1}}
        finally:
            sys.setprofile(None)
        return count

    assert calls(400) < 2.5 * calls(200)


def test_a_yaml_text_of_any_length_is_not_even_looked_at() -> None:
    with pytest.raises(SpecError, match="longer than the 8 MiB"):
        from_yaml(b"#" * (8 * 1024 * 1024 + 1))


@given(st.text() | st.binary() | st.text("ab:[]{}&*<!'\"-?,#\n 10|>%@~"))
def test_nothing_crashes_the_readers(text: str | bytes) -> None:
    for read in (codec.from_json, from_yaml):
        with contextlib.suppress(SpecError):
            read(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.integers(), children, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = st.sampled_from(["groups", "timeouts", "resources", "memory", "count", "overrides", "0"])


@st.composite
def almost_specs(draw: st.DrawFn) -> object:
    """A sensible spec with one value somewhere replaced by anything."""
    data: object = json.loads(codec.to_json(EXAMPLE))
    place = data
    while isinstance(place, dict) and place:
        key = draw(st.sampled_from(sorted(place)) | FIELDS)
        if key not in place or not isinstance(place[key], dict) or draw(st.booleans()):
            place[key] = draw(JSON_VALUES)
            break
        place = place[key]
    return data


@given(JSON_VALUES | almost_specs())
def test_no_data_crashes_the_decoder(data: object) -> None:
    with contextlib.suppress(SpecError):
        spec = codec.from_dict(data)
        assert codec.from_json(codec.to_json(spec)) == spec
