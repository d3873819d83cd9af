"""Compiles modules for a layer. Run on the interpreter that will load them.

Standard library only, and syntax of Python 3.8: the interpreter is the user's, not ours.
Reads lines ``[source, shown, out]`` of JSON; each compiled module is written to
``out``. One that does not compile (templates, code for another Python) has no
bytecode, as is the custom of installers.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_UNCHECKED = (1).to_bytes(4, "little")


def compiled(source: str, shown: str) -> bytes:
    """The bytecode of a module, valid wherever and whenever its source is unpacked."""
    with open(source, "rb") as file:
        text = file.read()
        found = os.fstat(file.fileno())
    code = _reusable(source, found.st_mtime, found.st_size)
    if code is None:
        code = marshal.dumps(compile(text, shown, "exec", dont_inherit=True))
    # "Unchecked hash": the layer is named by its content, so nobody need ask
    # again on the node whether source and bytecode belong together.
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text)
    return head + code


def _reusable(source: str, mtime: float, size: int) -> bytes | None:
    """What Python itself has compiled beside the source, if it is of this source."""
    try:
        with open(importlib.util.cache_from_source(source), "rb") as file:
            data = file.read()
    except OSError:
        return None
    stamp = (int(mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    length = (size & 0xFFFFFFFF).to_bytes(4, "little")
    if data[:16] != importlib.util.MAGIC_NUMBER + bytes(4) + stamp + length:
        return None
    return data[16:]


def main(lines: Iterable[str]) -> None:
    """Compile what the lines name."""
    import warnings

    warnings.simplefilter("ignore")
    for line in lines:
        source, shown, out = json.loads(line)
        try:
            data = compiled(source, shown)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        with open(out, "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main(sys.stdin)
