"""Runs as a script on the interpreter of an environment: prints its facts, or compiles modules.

Standard library only, in the syntax of Python 3.8, and without imports of ytf:
the interpreter belongs to the user's environment, not to ytf. ``facts`` prints
the fields of ``ytf.packaging.installation.Installation`` as JSON. ``compile``
reads JSON lines ``[source, shown]`` from standard input and writes the bytecode
of each module to standard output, after its length in 8 bytes. A module that
does not compile (a template, code for another Python) has no bytecode, as with
installers; its length is 0.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, BinaryIO

_UNCHECKED = (1).to_bytes(4, "little")


def interpreter_facts() -> dict[str, Any]:
    """Return the fields of ``Installation`` for the interpreter that runs this."""
    import site
    import sysconfig

    folders = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        # Before the others, as in sys.path.
        folders.insert(0, site.getusersitepackages())
    variable = sysconfig.get_config_var
    library = ""
    if variable("Py_ENABLE_SHARED"):
        library = os.path.join(str(variable("LIBDIR")), str(variable("INSTSONAME")))
    # A build that was moved still reports the directory it was built for.
    moved = os.path.join(sys.base_prefix, "lib", os.path.basename(library)) if library else ""
    return {
        "executable": sys.executable,
        "base_executable": os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable),
        "implementation": sys.implementation.name,
        "version": ".".join(map(str, sys.version_info[:2])),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "stdlib": os.path.dirname(os.__file__),
        "site_folders": [folder for folder in folders if os.path.isdir(folder)],
        "scripts": sysconfig.get_path("scripts"),
        "library": moved if os.path.exists(moved) else library,
        "tag": sys.implementation.cache_tag or "",
        "magic": importlib.util.MAGIC_NUMBER.hex(),
    }


def compile_all(lines: Iterable[str], out: BinaryIO) -> None:
    """Compile the modules named by lines of JSON."""
    import warnings

    warnings.simplefilter("ignore")
    for line in lines:
        source, shown = json.loads(line)
        try:
            data = compile_module(source, shown)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            data = b""
        out.write(len(data).to_bytes(8, "big") + data)


def compile_module(source: str, shown: str) -> bytes:
    """Return the bytecode of a module, valid wherever and whenever its source is unpacked."""
    import marshal

    with open(source, "rb") as file:
        text = file.read()
        found = os.fstat(file.fileno())
    code = _existing_bytecode(source, found.st_mtime, found.st_size)
    if code is None:
        code = marshal.dumps(compile(text, shown, "exec", dont_inherit=True))
    # An "unchecked hash" pyc: the digest of the layer covers the source, so the
    # node need not check again that source and bytecode belong together.
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(text)
    return head + code


def _existing_bytecode(source: str, mtime: float, size: int) -> bytes | None:
    """Return the bytecode in Python's own ``__pycache__``, if it was made from this source."""
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


if __name__ == "__main__":
    if sys.argv[1] == "facts":
        print(json.dumps(interpreter_facts()))
    else:
        compile_all(sys.stdin, sys.stdout.buffer)
