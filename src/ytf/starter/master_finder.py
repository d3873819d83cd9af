"""Looks for a new master by a process on ytf's runtime, for a starter that no master reaches.

Masters on YARN write where they are to HDFS (docs/adr/0019). To read that takes
libraries that starters do not load, so another process does it, as seldom as
possible, and prints what it has found. What it prints is believed only if it is
signed with the job's secret.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from ytf.log import log
from ytf.starter.process_tree import send_signal
from ytf.wire.address import split_url
from ytf.wire.untrusted import as_int, as_text, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping, Optional, Sequence, Tuple

    from ytf.wire.signing import Signer

OUTPUT_LIMIT = 64 * 1024
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
    ) -> None:
        self._argv = [sys.executable, *arguments]
        self._environ = dict(environ)
        self._signer = signer
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._next = 0.0
        self._process: Optional[_Process] = None
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
            self._process = _Process(self._argv, self._environ)
        except OSError as exc:
            self._log("it cannot be looked for: %s" % exc)

    def _read(self, process: _Process) -> Optional[Tuple[str, int]]:
        output = process.output()
        if output is None:
            return None
        process.end()
        self._process = None
        try:
            answer = read_json(output)
            read = [_master(each, self._signer) for each in answer["masters"]]
        except (ValueError, KeyError, TypeError):
            self._log("looking for it failed: %s" % (_last_line(output) or "no answer"))
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


class _Process:
    """A process whose stdout is read without waiting."""

    def __init__(self, argv: List[str], environ: Mapping[str, str]) -> None:
        self._began = time.monotonic()
        self._data = b""
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        try:
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, writing, 1),
                (os.POSIX_SPAWN_DUP2, writing, 2),
            ]
            self._pid = os.posix_spawn(argv[0], argv, environ, file_actions=actions)
        except OSError:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)

    def output(self) -> Optional[bytes]:
        """Return all that it has printed, once it has ended or used up its time; None before."""
        while len(self._data) <= OUTPUT_LIMIT:
            try:
                data = os.read(self._reading, 65536)
            except BlockingIOError:
                return None if time.monotonic() - self._began < TIME_LIMIT_S else self._data
            if not data:
                break
            self._data += data
        return self._data

    def end(self) -> None:
        """Kill it if it still runs; it is gone then."""
        os.close(self._reading)
        send_signal(self._pid, signal.SIGKILL)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            return  # taken with the processes that a dead reaper left


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
