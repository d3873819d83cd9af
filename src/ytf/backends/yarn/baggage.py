"""What containers bring with them: files in HDFS that nodes localize."""

from __future__ import annotations

import msgspec

from ytf.hadoop.yarn.launch import LocalFile
from ytf.starter.config import ROOM

Baggage = dict[str, LocalFile]
"""By the name a file gets in the container's working directory."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What a command runs on, put together by its starter (``starter/assembly.py``).

    ``manifest`` is the name of a file, ``layers`` says in which directory each
    layer is unpacked; ``files`` brings them along.
    """

    manifest: str
    layers: dict[str, str]
    files: Baggage


class StarterBaggage(msgspec.Struct, frozen=True, kw_only=True):
    """What starters bring: all of them ``files``, those of a group its environment as well.

    ``script`` is what starts them.
    """

    script: str
    files: Baggage
    environments: dict[str, Environment] = {}
    """By group; a group that is not in it uses what the node has."""

    def of_group(self, group: str) -> Baggage:
        """Everything that a starter of a group brings."""
        own = self.environments.get(group)
        return self.files if own is None else {**self.files, **own.files}


CONFIGURATION = f"{ROOM}/conf"
"""Where the submitter's Hadoop configuration is in the master's container."""
