"""How a command ends when something went wrong: one line, a hint, an exit code."""

from __future__ import annotations

from collections.abc import Callable

from ytf.cli.streams import OutputError, prepared, say
from ytf.errors import InternalError, YtfError

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: whoever read our output has gone."""
NOT_WRITTEN = 1


def guarded(prog: str, command: Callable[[], int]) -> int:
    """Run a command and turn whatever it raises into a message and an exit code.

    A traceback is shown only for our own bugs.
    """
    try:
        with prepared():
            return command()
    except InternalError:
        return _bug(prog)
    except YtfError as error:
        report(prog, error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        return not_written(prog, error)
    except Exception:
        return _bug(prog)


def report(prog: str, error: YtfError) -> None:
    """Print what happened and what to do next, on stderr."""
    say(f"{prog}: error: {error}")
    if error.hint:
        say(f"hint: {error.hint}")


def not_written(prog: str, error: OutputError, what: str = "the output") -> int:
    """Say that stdout took no more, unless its reader just left; the exit code for it."""
    if error.reader_left:
        return BROKEN_PIPE
    say(f"{prog}: error: {what} cannot be written to stdout: {error.strerror}")
    return NOT_WRITTEN


def _bug(prog: str) -> int:
    import traceback

    say(traceback.format_exc().rstrip())
    say(f"{prog}: this is a bug in ytf: please report it with the lines above and the command")
    return InternalError.exit_code
