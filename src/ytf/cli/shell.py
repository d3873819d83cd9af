"""``ytf shell``: a shell, or a command, in the container of a running task."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing

from ytf.cli.interrupts import Interrupted, Interrupts
from ytf.cli.job_arguments import open_job
from ytf.cli.output import OutputError, say
from ytf.cli.parser import UsageError
from ytf.client.remote_shell import ShellRequest, open_shell
from ytf.client.shell_relay import LeftShellError, StdoutError, relay, terminal_size

_LEFT = 255
"""The exit code after ``~.``, as ssh has it."""


def shell(job: str, task: str, words: Sequence[str], *, backend: str | None, terminal: bool) -> int:
    """Open a shell, or run a command; returns its exit code, or 128 + its signal.

    ``words``: one is a command line for a shell, several are a command and its
    arguments, none is an interactive shell.
    """
    is_terminal = os.isatty(0) and os.isatty(1)
    if terminal and not is_terminal:
        raise UsageError("--terminal: stdin and stdout are not a terminal")
    has_terminal = terminal or (is_terminal and not words)
    request = ShellRequest(
        command=_command(words),
        size=terminal_size() if has_terminal else None,
    )
    try:
        with Interrupts(hangup=True):
            handle = open_job(job, backend)
            sys.stdout.flush()
            with closing(open_shell(handle, task, request)) as connection:
                end = relay(connection, has_terminal=has_terminal)
    except Interrupted as interrupt:
        return interrupt.exit_code
    except LeftShellError:
        say("ytf: left; what ran there is killed")
        return _LEFT
    except StdoutError as exc:
        raise OutputError(exc.errno, exc.strerror) from exc
    if end.reason:
        say(f"ytf: {end.reason}")
    if end.signal is not None:
        return 128 + end.signal
    return end.exit_code or 0


def _command(words: Sequence[str]) -> str | None:
    if len(words) > 1:
        return shlex.join(words)
    return words[0] if words else None
