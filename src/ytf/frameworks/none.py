"""Programs of no framework that ytf knows, and the failures that any program can have."""

from __future__ import annotations

import signal

from ytf.frameworks.api import FrameworkProfile, Hint

_MORE_MEMORY = "ask for more memory with -m (--task_memory), or use less"
_OTHER_PYTHON = "choose the Python of the tasks with --env (current, or the path of an environment)"

_HINTS = (
    # The port.
    Hint(
        "another process has the port. Bind the one in YTF_TASK_PORT, and no fixed one; "
        "--framework tensorflow, the default, holds it for a program that binds with "
        "SO_REUSEPORT, as TensorFlow does: for others say --framework none",
        r"(?i)\baddress already in use\b",
    ),
    # Something is not where the command looks for it.
    Hint(
        "there is no {file}: a task begins in an empty directory; ship the program with -s "
        "(then run $DTF_TASK_SCRIPT) or --files, or name it by a path that every node has",
        r"can't open file '(?P<file>[^']+)': \[Errno 2\]",
    ),
    Hint(
        "this Python has no module {module}: "
        + _OTHER_PYTHON
        + ", or ship your own modules with --files",
        r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'",
    ),
    Hint(
        "there is no {python} on the task's PATH: " + _OTHER_PYTHON + ", or name another one",
        r"(^|[ :])(?P<python>python[0-9.]*): (command )?not found$",
        exit_code=127,
    ),
    Hint(
        "the command was not found: a task begins in an empty directory with the node's PATH; "
        "check its spelling, or ship it with -s or --files",
        exit_code=127,
    ),
    Hint(
        "the command was found but cannot be run: make it executable, or name its "
        "interpreter (python train.py, bash train.sh)",
        exit_code=126,
    ),
    # Disk or memory ran out.
    Hint(
        "a disk of the node is full: make room, write less, or write elsewhere",
        r"No space left on device",
    ),
    Hint(
        "the user's disk quota is used up: write less, or write elsewhere", r"Disk quota exceeded"
    ),
    Hint(
        "the program could get no more memory: " + _MORE_MEMORY,
        r"^MemoryError\b|^numpy\.\S*MemoryError\b|std::bad_alloc|OOM when allocating tensor"
        r"|Cannot allocate memory",
    ),
    # Only the signal is known.
    Hint(
        "it was killed, and not by ytf: the node may have run out of memory (its kernel log "
        "would say so); " + _MORE_MEMORY,
        signal=signal.SIGKILL,
    ),
    Hint(
        "the program uses instructions that the node's CPU does not have: use a build for "
        "older CPUs, or other nodes",
        signal=signal.SIGILL,
    ),
    Hint(
        "a mapped file was cut short or shared memory is full: look at the node's disks and "
        "/dev/shm",
        signal=signal.SIGBUS,
    ),
    Hint(
        "the program crashed in native code: PYTHONFAULTHANDLER=1 (--task_env) shows where",
        signal=signal.SIGSEGV,
    ),
    Hint(
        "the program gave up in native code: its last lines on stderr tell why, else "
        "PYTHONFAULTHANDLER=1 (--task_env) shows where",
        signal=signal.SIGABRT,
    ),
)


class NoFrameworkProfile(FrameworkProfile):
    """Any program that has to know its peers.

    It binds its port without SO_REUSEPORT, which fails while another process
    has the port: so the starter releases it.
    """

    hints = _HINTS


PROFILE = NoFrameworkProfile()
