"""What an interpreter knows of itself. Run on it, as a script; ours too, by import.

Standard library only, and syntax of Python 3.8.
"""

from __future__ import annotations

import importlib.util
import json
import os
import site
import sys
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def probe() -> dict[str, Any]:
    """The facts of ``Installation``, as plain data."""
    folders = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        # Before the others, as in sys.path.
        folders.insert(0, site.getusersitepackages())
    variable = sysconfig.get_config_var
    library = ""
    if variable("Py_ENABLE_SHARED"):
        library = os.path.join(str(variable("LIBDIR")), str(variable("INSTSONAME")))
    # A build that was moved still says where it was built for.
    moved = os.path.join(sys.base_prefix, "lib", os.path.basename(library)) if library else ""
    return {
        "executable": sys.executable,
        "base_executable": os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable),
        "implementation": sys.implementation.name,
        "version": ".".join(map(str, sys.version_info[:2])),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "stdlib": os.path.dirname(os.__file__),
        "site_folders": [folder for folder in folders if os.path.isdir(folder)],
        "scripts": sysconfig.get_path("scripts"),
        "library": moved if os.path.exists(moved) else library,
        "tag": sys.implementation.cache_tag or "",
        "magic": importlib.util.MAGIC_NUMBER.hex(),
    }


if __name__ == "__main__":
    print(json.dumps(probe()))
