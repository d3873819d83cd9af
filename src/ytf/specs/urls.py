"""What is a URL where a path could stand as well."""

from __future__ import annotations

import re

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(path: str) -> bool:
    """Whether a path is a URL, which no path here begins like."""
    return _URL.match(path) is not None
