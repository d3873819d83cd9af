"""JSON and YAML text to plain data and back, within bounds and with no surprises.

Duplicate keys, NaN and tags are refused rather than taken in silently.
"""

from __future__ import annotations

import json
from typing import NoReturn

from ytf.errors import SpecError
from ytf.specs.wording import shown

MAX_YAML = 8 * 1024 * 1024
"""The longest YAML text; JSON takes no more memory than its length, and has no limit."""
MAX_DIGITS = 400


def read_json(text: str | bytes) -> object:
    """The data a JSON text holds."""
    try:
        return json.loads(
            _decoded(text),
            object_pairs_hook=_unique,
            parse_int=whole_number,
            parse_constant=_not_a_number,
        )
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        raise SpecError(f"not JSON: {exc.msg}", where=where) from exc
    except RecursionError as exc:
        raise SpecError("nested too deeply for a job spec") from exc


def write_json(data: object) -> str:
    """Data as JSON text, indented, with a final line ending."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_yaml(text: str | bytes) -> object:
    """The data a YAML text holds, which must be a single document."""
    import yaml

    from ytf.specs.yaml_events import build

    if len(text) > MAX_YAML:
        raise SpecError(f"longer than the {MAX_YAML // 1024**2} MiB a job spec may have in YAML")
    try:
        # The parser keeps its own stack: only the builder knows of depth.
        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        return build(yaml.parse(_decoded(text), Loader=loader))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else None
        raise SpecError(f"not YAML: {exc.problem or exc.context}", where=where) from exc
    except yaml.YAMLError as exc:
        raise SpecError(f"not YAML: {' '.join(str(exc).split())}") from exc
    except UnicodeEncodeError as exc:
        raise SpecError("not YAML: a character that UTF-8 cannot express") from exc


def write_yaml(data: object) -> str:
    """Data as YAML text that readers of YAML 1.1 and 1.2 understand alike."""
    import yaml

    from ytf.specs.yaml_events import FLOAT, INT

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

        def represent_text(self, text: str) -> yaml.ScalarNode:
            # Only double quotes keep every kind of line ending as it is.
            style = None if text.isprintable() else '"'
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    # PyYAML knows the numbers of YAML 1.1; text that looks like one of 1.2 is quoted, too.
    for tag, pattern in (("int", INT), ("float", FLOAT)):
        Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", pattern, list("-+.0123456789"))
    return yaml.dump(
        data,
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=MAX_YAML,
    )


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise SpecError(f"not UTF-8 text: {exc.reason} at byte {exc.start}") from exc


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise SpecError(f"duplicate: the key {shown(key)} is there twice in one object")
        found[key] = value
    return found


def whole_number(digits: str) -> int:
    """The integer that is written so; Python itself refuses some thousands of digits."""
    if len(digits) > MAX_DIGITS:
        raise SpecError(f"a number of {len(digits)} digits is too large for anything here")
    return int(digits)


def _not_a_number(name: str) -> NoReturn:
    raise SpecError(f"{name} is not a number")
