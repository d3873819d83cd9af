"""Start a process in a session of its own. The node does not afford ``subprocess``."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A shell ignores some of these for what it runs in the background, and Python
# ignores SIGPIPE and SIGXFSZ; an ignored signal would stay so across exec.
_DEFAULTS = (
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
    """Run a program and return its pid once it is really running.

    ``output`` is a file both streams are appended to; None: they stay those of
    the caller. Raises ``OSError`` naming the file when the program cannot be
    started. Only for a process without threads, as it forks.
    """
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(told, argv, env, cwd, output, pass_fds)
    os.close(told)
    with open(heard, "rb") as pipe:
        complaint = pipe.read()
    if complaint:
        os.waitpid(pid, 0)
        number, _, path = complaint.partition(b" ")
        raise OSError(int(number), os.strerror(int(number)), os.fsdecode(path))
    return pid


def _child(
    told: int,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    output: str | None,
    pass_fds: Sequence[int],
) -> None:
    """Never returns: becomes the program, or says why not and ends."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in _DEFAULTS:
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
        culprit = os.fsencode(exc.filename or argv[0])
        os.write(told, b"%d %s" % (exc.errno or 0, culprit))
    finally:
        os._exit(127)
