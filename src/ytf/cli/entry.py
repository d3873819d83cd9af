"""The entry points of ``ytf``, ``ytf-submit`` and ``check_hadoop_env``.

Ctrl-C prints no traceback, even while modules are still being imported. This module
imports little, because imports before :func:`_run` are not covered.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_INTERRUPTED = 130


def ytf() -> int:
    """The entry point of ``ytf``; returns the exit code."""

    def load() -> Callable[[], int]:
        from ytf.cli.main import main

        return main

    return _run(load)


def check_hadoop_env() -> int:
    """The entry point of ``check_hadoop_env``: ``ytf doctor`` for YARN, by tf-yarn's name for it.

    Returns the exit code.
    """

    def load() -> Callable[[], int]:
        from ytf.cli.main import main

        return lambda: main(["doctor", "--backend", "yarn", *sys.argv[1:]])

    return _run(load)


def ytf_submit() -> int:
    """The entry point of ``ytf-submit``; returns the exit code."""

    def load() -> Callable[[], int]:
        from ytf.cli.submit.command import main

        return main

    return _run(load)


def _run(load: Callable[[], Callable[[], int]]) -> int:
    """Run a command. Ctrl-C before and after it ends the process at once."""
    ours = signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    main = load()
    leave = signal.signal(signal.SIGINT, ours)
    code = main()
    signal.signal(signal.SIGINT, leave)
    if "hdfs_native" in sys.modules:
        # Threads of hdfs-native may still be leaving Python code, and an interpreter
        # that shuts down meanwhile aborts. All output is written.
        os._exit(code)
    return code
