"""``python -m ytf.master``: one attempt of a job's master. The backend starts it."""

from __future__ import annotations

import os
import sys

from ytf.master.app import main

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Not sys.exit: threads of hdfs_native may still run, and an interpreter that
    # shuts down while they do aborts.
    os._exit(code)
