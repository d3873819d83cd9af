"""Signed calls from a client to whichever master runs a job now."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ytf.backends.answers import signed_call
from ytf.backends.api import MasterAddress
from ytf.starter.http import Answer, ChannelError


class NoMasterError(ChannelError):
    """No master has made itself known (yet, or any more)."""


class LocalMaster(MasterAddress, frozen=True):
    """What a master tells about itself in ``master.json``."""

    pid: int


def find_master(staging: Path) -> LocalMaster:
    """The newest master of a staged job; raises ``NoMasterError``."""
    path = staging / "master.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=LocalMaster)
    except FileNotFoundError as exc:
        raise NoMasterError(f"there is no {path}") from exc


def call(
    staging: Path,
    master: MasterAddress,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    timeout_s: float = 10.0,
) -> Answer:
    """As ``signed_call``, to the master of a staged job."""
    try:
        secret = (staging / "secret").read_bytes()
    except FileNotFoundError as exc:
        raise NoMasterError(f"there is no {exc.filename}") from exc
    return signed_call(master.url, secret, method, path, body, timeout_s)
