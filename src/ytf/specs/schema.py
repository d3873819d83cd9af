"""Makes a JSON schema of job specs, for editors.

The schema is made from the types. Rules that only :func:`ytf.specs.check.check`
knows, such as that one field needs another, are not in it.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from ytf.specs.amounts import MAX_INT
from ytf.specs.check import LABEL, MAX_TAGS, RESOURCE_NAME, TAG
from ytf.specs.durations import DURATION
from ytf.specs.field_docs import field_docs
from ytf.specs.grammar import MAX_NAME, MAX_TASKS
from ytf.specs.job import SPECS, JobSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MEMORY = r"^[0-9]+(\.[0-9]+)?[ ]?([kKmMgGtT]([iI]?[bB])?)?$"


def json_schema() -> dict[str, Any]:
    """The schema of what :func:`ytf.specs.codec.from_dict` takes."""
    schema: dict[str, Any] = {
        "$schema": _DIALECT,
        "title": "ytf job",
        **msgspec.json.schema(JobSpec),
    }
    types = schema["$defs"]
    for described in types.values():
        if "description" in described:
            described["description"] = inspect.cleandoc(described["description"])
    for part in SPECS:
        texts = field_docs(part)
        for name, described in types[part.__name__]["properties"].items():
            # Draft 2020-12 allows a description beside a $ref.
            described["description"] = texts[name]
            if name.endswith("_s"):
                _allow_duration(described)

    resources = types["Resources"]["properties"]
    resources["memory"] = {
        "description": resources["memory"]["description"],
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_INT},
            {"type": "string", "pattern": _MEMORY},
        ],
        "default": resources["memory"]["default"],
    }
    resources["vcores"].update(minimum=1, maximum=MAX_INT)
    resources["gpus"].update(minimum=0, maximum=MAX_INT)
    resources["others"]["propertyNames"] = {"pattern": f"^{RESOURCE_NAME}$"}
    resources["others"]["additionalProperties"].update(minimum=0, maximum=MAX_INT)

    group = types["TaskGroupSpec"]["properties"]
    group["count"].update(minimum=1, maximum=MAX_TASKS)
    group["max_restarts"].update(minimum=0, maximum=MAX_INT)
    for by_index in ("overrides", "task_env_overrides"):
        group[by_index]["propertyNames"] = {"pattern": "^(0|[1-9][0-9]*)$"}

    groups = types["JobSpec"]["properties"]["groups"]
    groups["propertyNames"] = {"pattern": f"^[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}$"}
    groups["minProperties"] = 1

    job = types["JobSpec"]["properties"]
    job["tags"].update(default=[], maxItems=MAX_TAGS)
    job["tags"]["items"]["pattern"] = f"^{TAG}$"
    for labelled in (job, group):
        label, _ = labelled["node_label"]["anyOf"]
        label["pattern"] = f"^({LABEL})?$"
        labelled["stage_in"]["default"] = labelled["stage_out"]["default"] = []
    return schema


def _allow_duration(described: dict[str, Any]) -> None:
    """Let a time be text with units, too: ``1h``."""
    forms = described.pop("anyOf", None) or [{"type": described.pop("type")}]
    described["anyOf"] = [{"type": "string", "pattern": f"^{DURATION}$"}, *forms]
