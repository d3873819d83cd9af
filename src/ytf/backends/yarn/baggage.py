"""What containers bring with them: files in HDFS that nodes localize."""

from __future__ import annotations

import msgspec

from ytf.hadoop.yarn.launch import FileType, LocalFile, Visibility
from ytf.packaging.layers import Layer
from ytf.packaging.linking import Manifest
from ytf.packaging.store import StoredLayer
from ytf.packaging.store import Visibility as LayerVisibility
from ytf.storage.files import Files, FileStatus

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


ROOM = ".ytf"
"""The directory for all of ours in a container's working directory, which is the user's."""
CONFIGURATION = f"{ROOM}/conf"
"""Where the submitter's Hadoop configuration is in the master's container."""


def layer_name(layer: Layer) -> str:
    """The directory into which a node unpacks a layer.

    So deep that nodes, which list every container's files for its log, five
    directories deep and through links, do not list the modules of a layer.
    """
    return f"{ROOM}/layers/{layer.digest[:16]}"


def manifest_name(manifest: Manifest) -> str:
    """The file by which a starter puts an environment together."""
    return f"{ROOM}/environment-{manifest.digest[:16]}.json"


def of_layer(files: Files, stored: StoredLayer) -> LocalFile:
    """A layer, shared by as many of a node's applications as may read it."""
    is_public = stored.visibility is LayerVisibility.PUBLIC
    return LocalFile(
        url=files.uri(stored.path),
        size=stored.size,
        modified_ms=stored.mtime_ms,
        type=FileType.ARCHIVE,
        visibility=Visibility.PUBLIC if is_public else Visibility.PRIVATE,
    )


def of_staged(files: Files, status: FileStatus, type_: FileType = FileType.FILE) -> LocalFile:
    """A file of the job's own."""
    return LocalFile(
        url=files.uri(status.path), size=status.size, modified_ms=status.mtime_ms, type=type_
    )
