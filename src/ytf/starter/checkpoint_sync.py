"""Keeps a task's checkpoint directory in sync with HDFS, by a helper process (ADR 32).

Used by the hooks of an attempt, see ``ytf.starter.attempt``. The helper is
``ytf.storage.checkpoint_sync``: it restores the directory before the program starts, syncs
it while the program runs, and once more after the program's end. If it dies meanwhile it
is started again; the program is not disturbed.
"""

from __future__ import annotations

import time

from ytf.log import log
from ytf.starter.runner import CANNOT_RUN, ProgramExit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    from ytf.starter.helper_process import HelperProcess
    from ytf.starter.starter import Starter

MODULE = "ytf.storage.checkpoint_sync"
TRIES = 4
"""How often a helper is started before the program, if it is killed or fails without a reason."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""The time after which a helper that died is started again: it doubles from one to the next."""
KILL_MARGIN_S = 5.0
"""How much longer than its limit the last sync may take, before its process is killed."""
_FIRST_SIGNAL_CODE = 128
_LONGEST_TEXT = 2000


class SyncHelper:
    """Syncs the checkpoint directory of one attempt. Methods are for the main thread."""

    def __init__(self, starter: Starter, attempt: int, tell: Callable[[str], None]) -> None:
        self._starter = starter
        self._attempt = attempt
        self._tell = tell
        self._helper: Optional[HelperProcess] = None
        self._is_ready = False
        self._fenced = ""
        self._trouble = ""
        self._pause_s = FIRST_PAUSE_S
        self._next_start = 0.0
        self._finish: Optional[Dict[str, Any]] = None
        self._has_sent = False
        self._deadline = 0.0
        self.failure = ""
        """Why it could not be done: set once ``begin`` or the last sync has failed."""

    def begin(self) -> None:
        """Restore the directory; returns when the program can start, or ``failure`` is set."""
        self._tell_activity("restoring the checkpoints")
        try:
            for left in range(TRIES - 1, -1, -1):
                self._start(restore=True)
                self._starter.wait_until(lambda: self._is_ready or self._has_ended())
                if self._is_ready or self._fenced or self._has_error():
                    break
                if left:
                    self._tell("checkpoints: %s; it is started again" % self._reason())
        except OSError as exc:
            self.failure = "its helper process could not be started: %s" % exc
        finally:
            self._tell_activity("")
        if not self._is_ready and not self.failure:
            self.failure = self._reason()

    def keep_running(self) -> None:
        """Start the helper again if it has died; to be called now and then."""
        if not self._has_ended() or self._fenced:
            return
        if not self._next_start:
            self._next_start = time.monotonic() + self._pause_s
            self._tell(
                "checkpoints are not synced: %s; trying again in %.0f s"
                % (self._reason(), self._pause_s)
            )
        elif time.monotonic() >= self._next_start:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._next_start = 0.0
            try:
                self._start(restore=False)
            except OSError as exc:
                self._trouble = str(exc)

    def finish(self, end: ProgramExit, limit_s: float, *, was_asked: bool) -> None:
        """Begin the last sync: the program has ended, ``was_asked`` to or by itself.

        A program that was killed, or failed by itself, may have left half of a file: then
        only what had been whole for a while counts.
        """
        if self._finish is not None:
            return
        code = end.exit_code
        all_counts = code == 0 or (was_asked and code is not None and code < _FIRST_SIGNAL_CODE)
        interval_s = self._starter.config.checkpoint_sync["interval_s"]
        cut_ns = None if all_counts else int((end.ended_at - interval_s) * 1e9)
        self._finish = {"finish": {"cut_ns": cut_ns, "timeout_s": limit_s}}
        self._deadline = time.monotonic() + limit_s + KILL_MARGIN_S
        self._tell_activity("syncing the checkpoints for the last time")
        self._send_finish()

    def is_finished(self) -> bool:
        """Whether the last sync has ended, well or not; to be called until it has."""
        if self.failure:
            return True
        if self._fenced:
            self.failure = self._fenced
        elif self._has_ended():
            ended = None if self._helper is None else self._helper.exit
            if ended is not None and ended.exit_code == 0:
                self._tell_activity("")
                return True
            if self._has_error() or time.monotonic() > self._deadline:
                self.failure = self._reason()
            else:
                self.keep_running()
        elif time.monotonic() > self._deadline:
            self.failure = "it took too long%s" % (self._trouble and ": " + self._trouble)
        if self.failure:
            self.end()
            return True
        self._send_finish()
        return False

    def end(self) -> None:
        """End the helper at once."""
        self._tell_activity("")
        if self._helper is not None:
            self._helper.end()

    def exit(self, end: ProgramExit) -> ProgramExit:
        """Return how the attempt ended: a program whose checkpoints are not safe has failed."""
        if not self.failure:
            return end
        text = "the checkpoints could not be synced: %s" % self.failure
        self._tell(text)
        # A program that failed has a reason of its own, which is the one to report.
        return ProgramExit(CANNOT_RUN, reason=text) if end.exit_code == 0 else end

    # Internals

    def _start(self, restore: bool) -> None:
        config = self._starter.config
        sync = config.checkpoint_sync
        request = {
            "dir": sync["dir"],
            "to": sync["to"],
            "interval_s": sync["interval_s"],
            "job": config.job,
            "task": config.task,
            "attempt": self._attempt,
            "host": self._starter.host,
            "restore": restore,
        }
        self._is_ready = self._has_sent = False
        self._helper = self._starter.helpers.start(MODULE, request, self._take)

    def _send_finish(self) -> None:
        # A helper that is ready has read its request: nothing can come before that.
        if self._finish is not None and self._is_ready and not self._has_sent:
            assert self._helper is not None
            self._has_sent = self._helper.send(self._finish)

    def _take(self, message: Dict[str, Any]) -> None:
        """Take a message of the helper, in the helper's thread."""
        if "ready" in message:
            self._is_ready = True
            self._pause_s = FIRST_PAUSE_S
        if "fenced" in message:
            self._fenced = str(message["fenced"])[:_LONGEST_TEXT]
            self._tell(self._fenced)
        if "text" in message:
            self._trouble = str(message["text"])[:_LONGEST_TEXT]
            self._tell("checkpoints: %s" % self._trouble)

    def _has_ended(self) -> bool:
        return self._helper is None or self._helper.exit is not None

    def _has_error(self) -> bool:
        return self._helper is not None and "error" in self._helper.last

    def _reason(self) -> str:
        if self._fenced:
            return self._fenced
        if self._helper is None:
            return self._trouble
        if self._has_error():
            return str(self._helper.last["error"])[:_LONGEST_TEXT]
        return "its helper process failed: %s" % self._helper.exit

    def _tell_activity(self, text: str) -> None:
        self._starter.activity = text
        if text:
            log(text)
