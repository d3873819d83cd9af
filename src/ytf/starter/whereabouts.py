"""Where the master is, as far as this starter knows, and when it was last heard of."""

from __future__ import annotations

import json
import os
import threading
import time

from ytf.starter.http import split_url
from ytf.starter.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple


class Whereabouts:
    """Shared by all threads. A master of a lower attempt never replaces one of a higher."""

    def __init__(self, url: str, master_file: Optional[str]) -> None:
        self._url = url
        self._attempt = 0
        self._file = master_file
        self._file_stamp: Optional[Tuple[int, int]] = None
        self._changed = threading.Condition()
        self._heard = time.monotonic()

    @property
    def url(self) -> str:
        """``http://host:port`` of the newest master known."""
        return self._url

    def heard(self) -> None:
        """The master just answered, provably."""
        self._heard = time.monotonic()

    def silence_s(self) -> float:
        """How long no master has been heard of."""
        return time.monotonic() - self._heard

    def told(self, url: str, attempt: int) -> bool:
        """Take in where a master is; False if that is no news, ``ValueError`` if no address."""
        split_url(url)
        with self._changed:
            if attempt < self._attempt or (url == self._url and attempt == self._attempt):
                return False
            say("the master is at %s (its attempt %d)" % (url, attempt))
            self._url = url
            self._attempt = attempt
            self._changed.notify_all()
            return True

    def reread(self) -> None:
        """Look into the master file, if there is one and it changed."""
        if self._file is None:
            return
        try:
            stat = os.stat(self._file)
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp == self._file_stamp:
                return
            with open(self._file, encoding="utf-8") as file:
                value: Any = json.load(file)
            self.told(str(value["url"]), int(value["attempt"]))
        except FileNotFoundError:
            return  # no master has written it yet
        except (OSError, ValueError, KeyError, TypeError) as exc:
            say("%s does not tell where the master is: %r" % (self._file, exc))
            return
        self._file_stamp = stamp

    def wait(self, known: str, timeout_s: float) -> None:
        """Return after ``timeout_s``, or at once when the master is not at ``known`` any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._url != known, timeout_s)
