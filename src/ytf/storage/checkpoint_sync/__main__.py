"""The helper process that keeps a task's checkpoint directory in sync (ADR 32).

A starter runs it beside the program (``ytf.starter.checkpoint_sync``). It claims and
restores, says so, syncs every interval, and once more when it is told that the program has
ended. While HDFS fails it goes on trying: the program is not disturbed.

What the starter sends: the request (``dir``, ``to``, ``interval_s``, ``restore`` and who asks),
then ``{"finish": …}``. What it gets: ``text`` for the task's stderr, ``ready``, ``fenced``, and
``error`` at a failure that ends the process.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ytf.errors import YtfError
from ytf.storage.checkpoint_sync.engine import FOREVER_NS, SyncEngine
from ytf.storage.checkpoint_sync.local_directory import LocalDirectory
from ytf.storage.checkpoint_sync.store import (
    SILENT_S,
    CheckpointStore,
    FencedWriterError,
    RemovedError,
    TakenError,
    Writer,
)
from ytf.storage.container_conf import helper_configuration
from ytf.storage.helper_protocol import Message, StarterLink, run
from ytf.storage.open_url import open_url

BEGIN_S = 600.0
"""How long HDFS may be unreachable before a program's start; then the attempt fails."""
BEAT_S = 30.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
_TELL_S = 60.0


class Finish(NamedTuple):
    """The program has ended. ``cut_ns`` says which of its files count, see ``SyncEngine``."""

    cut_ns: int
    timeout_s: float


class SyncProcess:
    """The life of the helper process, without its connection to the starter."""

    def __init__(
        self, sync: SyncEngine, interval_s: float, tell: Callable[[Message], None]
    ) -> None:
        self._sync = sync
        self._interval_s = interval_s
        self._tell = tell
        self._orders: queue.SimpleQueue[Finish] = queue.SimpleQueue()
        self._trouble = ""
        self._told_at = -_TELL_S
        self._blocked: set[str] = set()

    def begin(self, *, restore: bool) -> None:
        """Claim, and restore if that is wanted; raises if it cannot be done in time."""
        began = time.monotonic()
        pause_s = _FIRST_PAUSE_S
        problem: YtfError | OSError
        while True:
            try:
                self._sync.claim()
                if restore:
                    self._sync.restore()
                break
            except TakenError as exc:
                # A writer that is dead is silent from now on.
                problem, limit_s = exc, SILENT_S + BEAT_S
            except (ConnectionError, TimeoutError) as exc:
                problem, limit_s = exc, BEGIN_S
            if time.monotonic() > began + limit_s:
                raise problem
            self._report(f"{problem}; trying again")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._trouble = ""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def finish(self, order: Finish) -> None:
        """Let ``run`` sync once more and return. May be called from any thread."""
        self._orders.put(order)

    def run(self) -> None:
        """Sync until the program has ended, and once more then."""
        while True:
            try:
                order = self._orders.get(timeout=self._interval_s)
            except queue.Empty:
                self._try(self._sync.sync)
                continue
            return self._finish(order)

    def _finish(self, order: Finish) -> None:
        deadline = time.monotonic() + order.timeout_s
        pause_s = _FIRST_PAUSE_S
        while (problem := self._try(lambda: self._sync.finish(order.cut_ns))) is not None:
            if time.monotonic() + pause_s > deadline:
                raise problem
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        snapshot = self._sync.store.snapshot
        size = sum(file.size for file in snapshot.values())
        url = self._sync.store.uri()
        self._tell({"text": f"in sync with {url}: {len(snapshot)} files, {size} bytes"})
        self._try(self._sync.store.release)

    def _try(self, work: Callable[[], int | None]) -> YtfError | OSError | None:
        """Do a piece of work; a failure is told and returned, unless this writer is fenced."""
        try:
            new = work()
        except FencedWriterError:
            raise
        except RemovedError as exc:
            self._report(f"{exc}: everything is synced anew")
            return self._try(self._sync.start_over) or exc
        except (OSError, YtfError) as exc:
            self._report(f"the checkpoints are not synced: {exc}; trying again")
            return exc
        if self._trouble:
            self._trouble = ""
            self._tell({"text": "the checkpoints are synced again"})
        self._report_success(new or 0)
        return None

    def _report(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            self._tell({"text": text[:2000]})

    def _report_success(self, new: int) -> None:
        blocked = self._sync.store.blocked
        for name in sorted(set(blocked) - self._blocked)[:10]:
            url = self._sync.store.uri(name)
            self._tell({"text": f"{name} is synced, but not shown as {url}: {blocked[name]}"})
        self._blocked = set(blocked)
        if new and time.monotonic() > self._told_at + _TELL_S:
            self._told_at = time.monotonic()
            self._tell({"text": f"synced {new} files to {self._sync.store.uri()}"})

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            try:
                self._sync.store.beat()
            except (OSError, YtfError):
                continue  # the main thread finds out, too, and tells


def work(link: StarterLink) -> None:
    """Do what a starter asks for."""
    # Comes if a file is opened for writing while its lease is looked at.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    request = link.request
    files, root = open_url(request["to"], helper_configuration(os.environ))
    writer = Writer(
        job=request["job"],
        task=request["task"],
        attempt=request["attempt"],
        host=request["host"],
        nonce=os.urandom(16).hex(),
    )
    directory = LocalDirectory(Path(request["dir"]).absolute())
    sync = SyncEngine(
        directory,
        lambda: CheckpointStore(files, root, writer),
        request["interval_s"],
        lambda text: link.tell({"text": text}),
    )
    process = SyncProcess(sync, request["interval_s"], link.tell)
    try:
        process.begin(restore=request["restore"])
        link.tell({"ready": True})
        threading.Thread(target=_listen, args=(link, process), name="starter", daemon=True).start()
        process.run()
    except FencedWriterError as exc:
        link.tell({"fenced": str(exc)})


def _listen(link: StarterLink, process: SyncProcess) -> None:
    for message in link.messages():
        if "finish" in message:
            cut_ns = message["finish"]["cut_ns"]
            process.finish(
                Finish(FOREVER_NS if cut_ns is None else cut_ns, message["finish"]["timeout_s"])
            )
    # The starter is gone, and this process would be killed anyway.
    os._exit(1)


if __name__ == "__main__":
    run(work)
