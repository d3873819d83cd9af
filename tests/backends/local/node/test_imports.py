from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ytf


def test_the_node_loads_nothing_heavy() -> None:
    packages = Path(ytf.__file__).parents[1]
    heavy = ("msgspec", "asyncio", "subprocess", "pathlib", "shutil", "logging", "dataclasses")
    code = (
        f"import sys; sys.path.append({str(packages)!r}); import ytf.backends.local.node.node;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == "[]\n"
