"""Job specs as YAML text, there and back, for tests."""

from __future__ import annotations

import yaml

from ytf.specs import codec
from ytf.specs.job import JobSpec
from ytf.specs.yaml_builder import FLOAT, INT, read_yaml

EXAMPLE_YAML = """
    name: mnist
    command: python train.py
    output: /tmp/out
    tensorboard: true
    framework: none
    task_env: {COUNTRY: no, LEVEL: "3"}
    timeouts: {job_s: 1e3}
    master:
      resources: {vcores: 2}
    groups:
      ps:
        count: 1
        resources: &small {memory: 2 GiB, vcores: 2}
      worker:
        count: 4
        on_failure: restart-job
        resources: {<<: *small, gpus: 1}
        overrides:
          0: {memory: 4g}
"""
"""A job spec that uses most of YAML's ways to say things."""


def from_yaml(text: str | bytes) -> JobSpec:
    """The job spec that a YAML text describes."""
    return codec.from_dict(read_yaml(text))


def to_yaml(spec: JobSpec) -> str:
    """A job spec as YAML text that readers of YAML 1.1 and 1.2 understand alike."""
    return yaml.dump(
        codec.to_dict(spec),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=2**23,
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # Only double quotes keep every kind of line ending as it is.
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
# PyYAML knows the numbers of YAML 1.1; text that looks like one of 1.2 is quoted, too.
for _tag, _pattern in (("int", INT), ("float", FLOAT)):
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, list("-+.0123456789"))
