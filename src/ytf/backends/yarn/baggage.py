"""What containers bring with them: files in HDFS that nodes localize."""

from __future__ import annotations

import msgspec

from ytf.hadoop.yarn.launch import FileType, LocalFile, Visibility
from ytf.packaging.store import StoredLayer
from ytf.packaging.store import Visibility as LayerVisibility
from ytf.storage.files import Files, FileStatus

STARTER_SCRIPT = "ytf_starter.sh"
MASTER_SCRIPT = "ytf_master.sh"

Baggage = dict[str, LocalFile]
"""By the name a file gets in the container's working directory."""

_DECODER = msgspec.json.Decoder(Baggage)


def encode(baggage: Baggage) -> bytes:
    """As it is staged, for the master to read."""
    return msgspec.json.encode(baggage)


def decode(data: bytes) -> Baggage:
    """As it was staged."""
    return _DECODER.decode(data)


def layer_name(stored: StoredLayer) -> str:
    """The directory into which a node unpacks a layer."""
    return f"ytf_layer_{stored.layer.digest[:16]}"


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
