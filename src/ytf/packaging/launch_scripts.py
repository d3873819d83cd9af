"""Makes the scripts that start ytf's processes in a container, in POSIX sh.

A node may lack Python, or a library that the shipped interpreter is linked
with, and the loader's own message does not help users. So the script checks
with the loader first, and prints what to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from ytf.packaging.interpreter_layer import Interpreter
from ytf.starter.desired_state import CANNOT_BEGIN

# An empty package replaces ytf, as in ytf.backends.launch: what the public API
# imports would double the start time of a starter. Garbage collection is off
# during imports, where it takes a tenth of that time.
_RUN_STARTER = f"""\
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

# Compiled modules are valid for one version of Python only.
_RUN_MODULE = f"""\
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

# With LD_TRACE_LOADED_OBJECTS the loader resolves the libraries and does not start the program.
_LIBRARY_CHECK = """\
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

_PYTHON_CHECK = """\
if ! command -v "$python" >/dev/null; then
    echo "ytf: this node, $(uname -n), has no $python:" \\
        "name another with --python, or leave it out to have one shipped." >&2
    exit {code}
fi
"""


class RuntimePaths(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of the runtime's unpacked layers, relative to a container's working directory.

    ``python`` is an absolute path on the node, or None for the shipped
    interpreter, whose layer is then at ``interpreter``. ``code`` and
    ``libraries`` are the directories of the other layers.
    """

    code: str
    libraries: Sequence[str]
    interpreter: str = ""
    python: str | None = None
    packages: str
    version: str


def starter_script(paths: RuntimePaths, shipped: Interpreter | None) -> str:
    """Return the script that starts a starter."""
    arguments = f'"$here"/{shlex.quote(f"{paths.code}/{paths.packages}")}'
    return _script("the starter", paths, shipped, _RUN_STARTER, arguments)


def module_script(module: str, paths: RuntimePaths, shipped: Interpreter | None) -> str:
    """Return the script that runs a module of ytf, as ``python -m`` does, with its arguments."""
    folders = ":".join(
        f'"$here"/{shlex.quote(f"{layer}/{paths.packages}")}'
        for layer in (paths.code, *paths.libraries)
    )
    arguments = f"{paths.version} {folders} {module}"
    return _script(module, paths, shipped, _RUN_MODULE, arguments)


def helper_arguments(paths: RuntimePaths) -> list[str]:
    """Return the arguments with which the runtime's interpreter runs a module of ytf.

    The module's name and its own arguments follow. For a process in the container's
    working directory.
    """
    folders = ":".join(f"{layer}/{paths.packages}" for layer in (paths.code, *paths.libraries))
    return ["-I", "-S", "-c", _RUN_MODULE, paths.version, folders]


def _script(
    name: str, paths: RuntimePaths, shipped: Interpreter | None, code: str, arguments: str
) -> str:
    lines = [f"#!/bin/sh\n# Starts {name} of ytf; made by ytf, see ytf.packaging.launch_scripts.\n"]
    lines.append("here=$PWD\n")
    if paths.python is not None or shipped is None:
        lines.append(f"python={shlex.quote(paths.python or 'python3')}\n")
        lines.append(_PYTHON_CHECK.format(code=CANNOT_BEGIN))
    else:
        lines.append(f'python="$here"/{shlex.quote(f"{paths.interpreter}/{shipped.executable}")}\n')
        if shipped.library_path:
            folder = shlex.quote(f"{paths.interpreter}/lib")
            lines.append(
                f'LD_LIBRARY_PATH="$here"/{folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n'
            )
            lines.append("export LD_LIBRARY_PATH\n")
        lines.append(_library_check(shipped))
    lines.append(f'exec "$python" -I -S -c {shlex.quote(code)} {arguments} "$@"\n')
    return "".join(lines)


def _library_check(shipped: Interpreter) -> str:
    needs = shipped.needs
    version = ".".join(map(str, needs.glibc))
    beyond = [name for name in needs.libraries if not name.startswith(("libc.", "libm.", "ld-"))]
    words = ", ".join([f"glibc {version} or newer", *beyond]) if version else ", ".join(beyond)
    return _LIBRARY_CHECK.format(
        preload=shlex.quote(" ".join(needs.libraries)), needs=words, code=CANNOT_BEGIN
    )
