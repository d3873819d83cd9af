"""Who is where."""

from __future__ import annotations

import msgspec


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Group → ``host:port`` of each member, by index.

    ``generation`` counts the job's restarts; ``revision`` counts what was
    published, so that a higher one always replaces a lower one.
    """

    generation: int
    revision: int
    members: dict[str, tuple[str, ...]]
