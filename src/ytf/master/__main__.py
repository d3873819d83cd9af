"""``python -m ytf.master``: one attempt at being a job's master. Started by the backend."""

from __future__ import annotations

import os
import sys

from ytf.lightness import without_typing_extensions


def _main() -> int:
    without_typing_extensions()
    from ytf.master.attempt import main

    return main()


if __name__ == "__main__":
    code = _main()
    sys.stdout.flush()
    # Not sys.exit: the threads of hdfs_native may be on their way out of Python
    # still, and an interpreter that takes itself apart meanwhile aborts.
    os._exit(code)
