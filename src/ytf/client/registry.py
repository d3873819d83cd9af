"""Finds out which registry a job is to use."""

from __future__ import annotations

from collections.abc import Mapping

from ytf.hadoop.conf import Configuration
from ytf.specs.registry import REST, resolve


def resolve_registry(registry: str, environ: Mapping[str, str]) -> str:
    """A spec's registry with what Hadoop's configuration says of it, where there is one."""
    if registry == REST:
        return registry
    place = Configuration.find(environ)
    if place is None:
        return resolve(registry, lambda _: None)
    return resolve(registry, Configuration.load(place, environ=environ).get_trimmed)
