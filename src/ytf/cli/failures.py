"""How a command ends when something went wrong: one line, a hint, an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from ytf.errors import InternalError, YtfError

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: whoever read our output has gone."""


def guarded(prog: str, command: Callable[[], int]) -> int:
    """Run a command and turn whatever it raises into a message and an exit code.

    A traceback is shown only for our own bugs.
    """
    try:
        code = command()
        # Here, not at the interpreter's exit, where a closed pipe would be a traceback.
        sys.stdout.flush()
    except InternalError:
        return _bug(prog)
    except YtfError as error:
        report(prog, error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nothing more can be written; keep the interpreter from trying at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception:
        return _bug(prog)
    return code


def report(prog: str, error: YtfError) -> None:
    """Print what happened and what to do next, on stderr."""
    print(f"{prog}: error: {error}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def _bug(prog: str) -> int:
    import traceback

    traceback.print_exc()
    print(
        f"{prog}: this is a bug in ytf: please report it with the lines above and the command",
        file=sys.stderr,
    )
    return InternalError.exit_code
