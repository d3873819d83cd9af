"""Prints what the masters of a job have written of where they are, for a starter (docs/adr/0019).

``python -m ytf.backends.yarn.find_master DIRECTORY`` runs beside a starter,
in its container, and counts against its memory: it imports as little as possible.
It prints one line of JSON: ``masters``, the texts that they wrote, or an ``error``.
The starter checks their signatures.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence

from ytf.errors import YtfError
from ytf.starter.process_tree import signal_on_parents_death
from ytf.storage.container_conf import container_configuration
from ytf.storage.files import Files
from ytf.storage.hdfs import HdfsFiles, path_of

_NEWEST = 8
"""How many files are read: somebody else may have written some of them."""
_LONGEST = 1024
"""How much of a file is read. All of them, with every byte escaped as ``\\u0000``, fit the line
that a starter reads (``LINE_LIMIT``)."""


def main(argv: Sequence[str]) -> int:
    """Print the answer; the exit code is 0 also if there is none."""
    parent = os.getppid()
    signal_on_parents_death(signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    (directory,) = argv
    error = ""
    masters: list[str] = []
    try:
        conf = container_configuration(os.environ)
        masters = list(read_masters(HdfsFiles.open(directory, conf), path_of(directory)))
    except FileNotFoundError:
        error = "no later one has written where it is"
    except (OSError, YtfError) as exc:
        error = str(exc)
    print(json.dumps({"masters": masters, "error": error}), flush=True)
    return 0


def read_masters(files: Files, directory: str) -> Iterator[str]:
    """Yield the text of each file, that of the highest attempt first: their names are numbers."""
    found = [each for each in files.list(directory) if each.name.isascii() and each.name.isdigit()]
    for each in sorted(found, key=lambda each: int(each.name), reverse=True)[:_NEWEST]:
        yield b"".join(files.read(each.path, 0, _LONGEST)).decode("utf-8", "replace")


if __name__ == "__main__":
    # Skips the interpreter's shutdown because of hdfs-native: see ytf.cli.entry.
    os._exit(main(sys.argv[1:]))
