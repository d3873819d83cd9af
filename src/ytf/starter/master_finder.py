"""Looks for a new master by a process on ytf's runtime, for a starter that no master reaches.

Masters on YARN write where they are to HDFS (docs/adr/0019). To read that takes
libraries that starters do not load, so another process does it, as seldom as
possible, and prints what it has found. What it prints is believed only if it is
signed with the job's secret.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from ytf.log import log
from ytf.starter.helper_process import HelperProcess
from ytf.wire.address import split_url
from ytf.wire.untrusted import as_int, as_text, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Mapping, Optional, Sequence, Tuple

    from ytf.starter.desired_state import InboxMessage
    from ytf.wire.signing import Signer

_LONGEST_URL = 300
TIME_LIMIT_S = 30.0
"""How long one process may take: it is a second on an idle node."""


class MasterFinder:
    """Runs the process again and again while there is no master. For all threads.

    ``arguments`` are those of this very interpreter. ``interval_s`` is the
    silence after which it first looks, and about the time between two looks.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        signer: Signer,
        interval_s: float,
        inbox: SimpleQueue[InboxMessage],
    ) -> None:
        self._argv = [sys.executable, *arguments]
        self._environ = dict(environ)
        self._signer = signer
        self._interval_s = interval_s
        self._inbox = inbox
        self._lock = threading.Lock()
        self._next = 0.0
        self._began = 0.0
        self._process: Optional[HelperProcess] = None
        self._trouble = ""
        self._is_closed = False

    def look(self, silence_s: float) -> Optional[Tuple[str, int]]:
        """Return the URL and the attempt of the newest master found since the last call.

        Returns at once: it starts a process if one is due, and reads what the one that
        runs has printed.
        """
        with self._lock:
            if self._process is not None:
                return self._read(self._process)
            if silence_s >= self._interval_s and time.monotonic() >= self._next:
                self._start()
            return None

    def stop(self) -> None:
        """End the process, if one runs: a master has been found."""
        with self._lock:
            if self._process is not None:
                self._process.end()
                self._process = None

    def close(self) -> None:
        """End the process, if one runs; no other one follows."""
        self._is_closed = True
        self.stop()

    def _start(self) -> None:
        # Jitter: thousands of starters miss the same master.
        self._next = time.monotonic() + self._interval_s * (0.75 + os.urandom(1)[0] / 512)
        if self._is_closed:
            return
        try:
            self._process = HelperProcess(self._argv, self._environ, {}, None, self._inbox)
            self._began = time.monotonic()
        except OSError as exc:
            self._log("it cannot be looked for: %s" % exc)

    def _read(self, process: HelperProcess) -> Optional[Tuple[str, int]]:
        if process.exit is None and time.monotonic() - self._began < TIME_LIMIT_S:
            return None
        process.end()
        self._process = None
        answer = process.last
        try:
            read = [_master(each, self._signer) for each in answer["masters"]]
        except (ValueError, KeyError, TypeError):
            self._log("looking for it failed: %s" % process.exit)
            return None
        found = [each for each in read if each is not None]
        if len(found) < len(read):
            self._log("somebody wrote of one that is not signed with the job's secret")
        elif not found:
            self._log(str(answer.get("error")))
        return max(found, key=lambda each: each[1], default=None)

    def _log(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            log("the master: %s" % text[:500])


def _master(text: str, signer: Signer) -> Optional[Tuple[str, int]]:
    """Return the URL and the attempt of a master; None if this was not signed by one."""
    try:
        value = read_json(text.encode("utf-8"))
        url, attempt = as_text(value["url"], _LONGEST_URL), as_int(value["attempt"])
        if not signer.verify_master(url, attempt, as_text(value["signature"], _LONGEST_URL)):
            return None
        split_url(url)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return url, attempt
