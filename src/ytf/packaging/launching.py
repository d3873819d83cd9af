"""The scripts that start ytf's processes in a container: POSIX sh and nothing else.

A node may lack Python, or a library that the shipped interpreter is linked
with. Then the loader's own words would be all that anybody reads; the script
asks the loader before it starts anything, and says what to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from ytf.packaging.interpreter import Interpreter
from ytf.starter.situation import CANNOT_BEGIN

# The package ytf is stood in for by an empty one, as in ytf.starter.bootstrap:
# what the public API imports would double a starter's start. And garbage is not
# looked for among modules that are being loaded, which takes a tenth of it.
_STARTER = f"""\
import gc, sys
if sys.version_info < (3, 8):
    sys.stderr.write("ytf: %s is Python %d.%d, and a starter needs 3.8 or newer\\n"
                     % ((sys.executable,) + sys.version_info[:2]))
    sys.exit({CANNOT_BEGIN})
ytf = sys.modules["ytf"] = type(sys)("ytf")
ytf.__path__ = [sys.argv.pop(1) + "/ytf"]
gc.disable()
from ytf.starter.__main__ import main
gc.enable()
sys.exit(main())
"""

# Compiled modules fit one version of Python only.
_MODULE = f"""\
import sys
version, folders, module = sys.argv[1:4]
del sys.argv[1:4]
if "%d.%d" % sys.version_info[:2] != version:
    sys.stderr.write("ytf: %s is Python %d.%d, but the job was submitted with %s: "
                     "name one of that version with --python\\n"
                     % ((sys.executable,) + sys.version_info[:2] + (version,)))
    sys.exit({CANNOT_BEGIN})
sys.path += folders.split(":")
import runpy
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

# The loader is asked for the interpreter and its libraries, and starts nothing.
_CHECK = """\
said=$(LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD={preload} "$python" 2>&1) || said="$said: not found"
case $said in
*'not found'* | *'cannot be preloaded'*)
    {{
        has=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo 'no glibc')
        echo "ytf: the Python shipped with this job does not run on this node, $(uname -n)."
        echo "It needs {needs}; the node has $has."
        echo 'The loader says:'
        printf '%s\\n' "$said" | grep -e 'not found' -e 'cannot be preloaded'
        echo 'Install what is missing, or submit with --python PATH: a Python on the nodes.'
    }} >&2
    exit {code}
    ;;
esac
"""

_MISSING = """\
if ! command -v "$python" >/dev/null; then
    echo "ytf: this node, $(uname -n), has no $python:" \\
        "name another with --python, or leave it out to have one shipped." >&2
    exit {code}
fi
"""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where a container finds the runtime, below its working directory.

    ``python`` is an absolute path on the node, or None for the shipped
    interpreter, which then lies unpacked at ``interpreter``. ``code`` and
    ``libraries`` are the directories of the other layers.
    """

    code: str
    libraries: Sequence[str]
    interpreter: str = ""
    python: str | None = None
    packages: str
    version: str


def starter_script(places: Places, shipped: Interpreter | None) -> str:
    """The script that becomes a starter."""
    arguments = f'"$here"/{shlex.quote(f"{places.code}/{places.packages}")}'
    return _script("the starter", places, shipped, _STARTER, arguments)


def module_script(module: str, places: Places, shipped: Interpreter | None) -> str:
    """The script that runs a module of ytf as ``python -m`` would, with the script's arguments."""
    folders = ":".join(
        f'"$here"/{shlex.quote(f"{layer}/{places.packages}")}'
        for layer in (places.code, *places.libraries)
    )
    arguments = f"{places.version} {folders} {module}"
    return _script(module, places, shipped, _MODULE, arguments)


def _script(
    name: str, places: Places, shipped: Interpreter | None, code: str, arguments: str
) -> str:
    lines = [f"#!/bin/sh\n# Starts {name} of ytf; made by ytf, see ytf.packaging.launching.\n"]
    lines.append("here=$PWD\n")
    if places.python is not None or shipped is None:
        lines.append(f"python={shlex.quote(places.python or 'python3')}\n")
        lines.append(_MISSING.format(code=CANNOT_BEGIN))
    else:
        lines.append(
            f'python="$here"/{shlex.quote(f"{places.interpreter}/{shipped.executable}")}\n'
        )
        if shipped.library_path:
            folder = shlex.quote(f"{places.interpreter}/lib")
            lines.append(
                f'LD_LIBRARY_PATH="$here"/{folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n'
            )
            lines.append("export LD_LIBRARY_PATH\n")
        lines.append(_check(shipped))
    lines.append(f'exec "$python" -I -S -c {shlex.quote(code)} {arguments} "$@"\n')
    return "".join(lines)


def _check(shipped: Interpreter) -> str:
    needs = shipped.needs
    version = ".".join(map(str, needs.glibc))
    beyond = [name for name in needs.libraries if not name.startswith(("libc.", "libm.", "ld-"))]
    words = ", ".join([f"glibc {version} or newer", *beyond]) if version else ", ".join(beyond)
    return _CHECK.format(
        preload=shlex.quote(" ".join(needs.libraries)), needs=words, code=CANNOT_BEGIN
    )
