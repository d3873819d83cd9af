"""Starts a process in its own session, without ``subprocess``, which is too big for the node."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Signals that get their default action again. A shell ignores some of them for
# what it runs in the background, and Python ignores SIGPIPE and SIGXFSZ; an
# ignored signal would stay ignored across exec.
_DEFAULT_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGXFSZ,
)


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    output: str | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Run a program and return its pid once ``exec`` has succeeded.

    Both output streams are appended to the file ``output``; without it the
    caller's are inherited. Raises an ``OSError`` that names the file if the
    program cannot be started. Forks, so the caller must not have threads.
    """
    # exec closes the pipe. Until then the child can write to it why it failed.
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(writer, argv, env, cwd, output, pass_fds)
    os.close(writer)
    with open(reader, "rb") as pipe:
        error = pipe.read()
    if error:
        os.waitpid(pid, 0)
        number, _, path = error.partition(b" ")
        raise OSError(int(number), os.strerror(int(number)), os.fsdecode(path))
    return pid


def _child(
    writer: int,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    output: str | None,
    pass_fds: Sequence[int],
) -> None:
    """Exec the program; if that fails, write errno and file name to ``writer``. Never returns."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in _DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if output is not None:
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
        for fd in pass_fds:
            os.set_inheritable(fd, True)
        os.chdir(cwd)
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as exc:
        path = os.fsencode(exc.filename or argv[0])
        os.write(writer, b"%d %s" % (exc.errno or 0, path))
    finally:
        os._exit(127)
