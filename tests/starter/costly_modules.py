"""Modules of the standard library that would cost every starter memory or time."""

from __future__ import annotations

COSTLY = {
    "argparse", "asyncio", "dataclasses", "email", "hashlib", "hmac", "http.client", "inspect",
    "logging", "pathlib", "random", "shutil", "ssl", "subprocess", "tempfile", "typing",
    "urllib.parse",
}  # fmt: skip
