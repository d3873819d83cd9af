"""Keeps where the master is, as far as this starter knows, and when it last answered."""

from __future__ import annotations

import os
import threading
import time

from ytf.log import log
from ytf.wire.address import split_url
from ytf.wire.untrusted import as_int, as_text, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple

    from ytf.starter.master_finder import MasterFinder


class MasterLocator:
    """The newest master known; shared by all threads.

    A new master is learned of in two ways: it calls the control endpoint, or it
    writes where it is, to ``master_file`` (local backend) or where ``finder``
    looks (YARN). A master of a lower attempt never replaces one of a higher.
    """

    def __init__(
        self,
        url: str,
        master_file: Optional[str],
        attempt: int = 0,
        finder: Optional[MasterFinder] = None,
    ) -> None:
        self._url = url
        self._attempt = attempt
        self._file = master_file
        self._finder = finder
        self._file_stamp: Optional[Tuple[int, int]] = None
        self._changed = threading.Condition()
        self._heard = time.monotonic()

    @property
    def url(self) -> str:
        """``http://host:port`` of the newest master known."""
        return self._url

    def heard(self) -> None:
        """Note that the master has just given a validly signed answer."""
        self._heard = time.monotonic()
        if self._finder is not None:
            self._finder.stop()

    def silence_s(self) -> float:
        """How long no master has answered, in seconds."""
        return time.monotonic() - self._heard

    def update(self, url: str, attempt: int) -> bool:
        """Take in where a master is; False if that changes nothing.

        Raises ``ValueError`` if ``url`` is no address.
        """
        split_url(url)
        with self._changed:
            if attempt < self._attempt or (url == self._url and attempt == self._attempt):
                return False
            log("the master is at %s (its attempt %d)" % (url, attempt))
            self._url = url
            self._attempt = attempt
            self._changed.notify_all()
            return True

    def refresh(self) -> None:
        """Look whether another master has written where it is. Returns at once."""
        if self._finder is not None:
            found = self._finder.look(self.silence_s())
            if found is not None:
                self.update(*found)
        if self._file is not None:
            self._read_file(self._file)

    def close(self) -> None:
        """Leave no process behind."""
        if self._finder is not None:
            self._finder.close()

    def _read_file(self, path: str) -> None:
        try:
            stat = os.stat(path)
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp == self._file_stamp:
                return
            with open(path, "rb") as file:
                value: Any = read_json(file.read())
            self.update(as_text(value["url"], 300), as_int(value["attempt"]))
        except FileNotFoundError:
            return  # no master has written it yet
        except (OSError, ValueError, KeyError, TypeError) as exc:
            log("%s does not tell where the master is: %r" % (path, exc))
            return
        self._file_stamp = stamp

    def wait(self, known: str, timeout_s: float) -> None:
        """Return after ``timeout_s``, or at once when the master is no longer at ``known``."""
        with self._changed:
            self._changed.wait_for(lambda: self._url != known, timeout_s)
