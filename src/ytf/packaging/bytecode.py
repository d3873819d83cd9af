"""Bytecode that travels with its modules.

Importing TensorFlow takes 4 s of a processor with bytecode and 11 s without,
and a node's cache of layers is often not writable by the task: then each task
would pay for it, every time. So the submitter compiles, once for each layer.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ytf.errors import SettingsError
from ytf.packaging import compiler
from ytf.packaging.layers import Bytecode, Content, Entry, Going, compiled_path, unstopped

_AT_ONCE = 400
_LOOK_S = 0.1
"""How often a compilation is asked whether to go on."""


def compile_modules(what: Content, into: Path, going: Going = unstopped) -> list[Entry]:
    """Compile the modules of a content below a directory; the entries to be packed with it.

    Raises ``SettingsError`` if the interpreter cannot be run. What ``going``
    raises ends the interpreters as well.
    """
    code = what.bytecode
    if code is None:
        return []
    wanted: list[tuple[str, str, str]] = []
    places: list[str] = []
    for entry in what.entries:
        place = compiled_path(entry.path, code.tag)
        if place is not None and entry.source:
            wanted.append((entry.source, entry.path, str(into / f"{len(wanted)}.pyc")))
            places.append(place)
    batches = [wanted[i : i + _AT_ONCE] for i in range(0, len(wanted), _AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for _ in pool.map(lambda batch: _compile(code, batch, going), batches):
            pass
    return [
        Entry(path=place, source=out)
        for place, (_, _, out) in zip(places, wanted, strict=True)
        if os.path.exists(out)
    ]


def _compile(code: Bytecode, batch: list[tuple[str, str, str]], going: Going) -> None:
    going()
    # A file, as a pipe that is not emptied at once is forgotten by a wait with a time limit.
    with tempfile.TemporaryFile("w+") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in batch)
        lines.seek(0)
        process = subprocess.Popen(
            [code.python, "-I", "-S", compiler.__file__],
            stdin=lines,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    said = ""
    with process:
        try:
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said = process.communicate(timeout=_LOOK_S)[1]
                going()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        last = (said.strip() or "no message").splitlines()[-1]
        raise SettingsError(
            f"cannot compile modules with {code.python}: it exited with {process.returncode}: "
            f"{last}",
            hint="check that this interpreter runs; a Python as old as 3.8 will do",
        )
