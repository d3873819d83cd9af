"""The installed version of ytf."""

from __future__ import annotations


def version() -> str:
    """As the distribution's metadata has it."""
    from importlib import metadata

    return metadata.version("ytf")
