from __future__ import annotations

import json
import re
import textwrap
from typing import Any

import pytest
from hypothesis import given

from tests.specs.strategies import job_specs
from tests.specs.yaml_codec import EXAMPLE_YAML
from ytf.specs import codec
from ytf.specs.job import SPECS, JobSpec
from ytf.specs.schema import json_schema
from ytf.specs.yaml_builder import read_yaml

SCHEMA = json_schema()
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    *("$schema", "$ref", "$defs", "title", "description", "default", "type", "enum", "anyOf"),
    *("properties", "required", "additionalProperties", "propertyNames", "minProperties"),
    *("minimum", "maximum", "pattern", "items", "maxItems"),
}


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """A validator for the words our schema uses; an unknown word fails the test."""
    assert set(schema) <= KNOWN
    if "$ref" in schema:
        return valid(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return any(valid(value, choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    wanted = schema.get("type")
    if wanted is not None:
        if not isinstance(value, TYPES[wanted]):
            return False
        if isinstance(value, bool) and wanted != "boolean":
            return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, dict):
        return valid_object(value, schema)
    if isinstance(value, list):
        few = len(value) <= schema.get("maxItems", len(value))
        return few and all(valid(item, schema.get("items", {})) for item in value)
    return True


def valid_object(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    if not set(schema.get("required", ())) <= set(value):
        return False
    if len(value) < schema.get("minProperties", 0):
        return False
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, item in value.items():
        if not valid(key, schema.get("propertyNames", {})):
            return False
        if key in fields:
            if not valid(item, fields[key]):
                return False
        elif others is False or (isinstance(others, dict) and not valid(item, others)):
            return False
    return True


@given(job_specs())
def test_every_written_spec_is_valid(spec: JobSpec) -> None:
    assert valid(json.loads(codec.to_json(spec)), SCHEMA)


def test_what_people_write_is_valid() -> None:
    data = json.loads(json.dumps(read_yaml(textwrap.dedent(EXAMPLE_YAML))))
    assert valid(data, SCHEMA)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"groups": {}},
        {"groups": {"a b": {"count": 1}}},
        {"groups": {"a": {}}},
        {"groups": {"a": {"count": 0}}},
        {"groups": {"a": {"count": True}}},
        {"groups": {"a": {"count": 1, "on_failure": "restart"}}},
        {"groups": {"a": {"count": 1, "resources": {"memory": "much"}}}},
        {"groups": {"a": {"count": 1, "resources": {"memory": 0}}}},
        {"groups": {"a": {"count": 1, "overrides": {"x": {}}}}},
        {"groups": {"a": {"count": 1}}, "comand": "x"},
        {"groups": {"a": {"count": 1}}, "tags": "x"},
        {"groups": {"a": {"count": 1}}, "tags": ["x,y"]},
        {"groups": {"a": {"count": 1}}, "tags": ["x"] * 11},
        {"groups": {"a": {"count": 1}}, "node_label": "two words"},
        {"groups": {"a": {"count": 1, "placement": "up"}}},
        {"groups": {"a": {"count": 1, "resources": {"others": {"fpga": -1}}}}},
    ],
)
def test_what_is_wrong_is_not_valid(data: object) -> None:
    assert not valid(data, SCHEMA)


def test_the_schema_is_json_and_describes_its_types() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    described = SCHEMA["$defs"]["TaskGroupSpec"]["description"]
    assert described.startswith("The tasks of one role.")
    assert "\n  " not in described


def test_every_field_has_a_description() -> None:
    for spec in SPECS:
        fields = SCHEMA["$defs"][spec.__name__]["properties"]
        assert set(fields) == set(spec.__struct_encode_fields__)
        assert all(field["description"].endswith(".") for field in fields.values())
