"""Where the two commands begin and end: Ctrl-C is quiet also while Python is still loading.

Imports as little as it can, since what is imported before :func:`_run` is not covered.
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
    """The entry point of ``ytf``; its exit code."""

    def load() -> Callable[[], int]:
        from ytf.cli.main import main

        return main

    return _run(load)


def ytf_submit() -> int:
    """The entry point of ``ytf-submit``; its exit code."""

    def load() -> Callable[[], int]:
        from ytf.cli.submit import main

        return main

    return _run(load)


def _run(load: Callable[[], Callable[[], int]]) -> int:
    """Before and after the command itself there is nothing to undo: leave at once."""
    ours = signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from ytf.lightness import without_typing_extensions

    without_typing_extensions()
    main = load()
    leave = signal.signal(signal.SIGINT, ours)
    code = main()
    signal.signal(signal.SIGINT, leave)
    if "hdfs_native" in sys.modules:
        # Its threads may be on their way out of Python still, and an interpreter
        # that takes itself apart meanwhile aborts. All output is written.
        os._exit(code)
    return code
