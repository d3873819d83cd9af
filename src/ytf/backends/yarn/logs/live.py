"""Lines of a running job's tasks as they are written, many containers at a time.

::

    observer: who is where now, is it over? ──▶ a watch for each container
                                                      │ due, one after another
    threads, a few: look at the next that is due ◀────┘
        └── lines, words ──▶ whoever reads

A place that hangs holds up one thread, not the others' lines; one reader that
is slow holds up all, so that nothing piles up.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, Full, PriorityQueue, Queue, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING

from ytf.backends.api import LogLine
from ytf.backends.yarn.logs.starters import Starters
from ytf.backends.yarn.logs.streams import Readers
from ytf.backends.yarn.logs.watching import Said, Source, Watch
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.specs.status import JobStatus

if TYPE_CHECKING:
    from ytf.backends.yarn.job.handle import YarnJob

_LOOK_S = 0.25
"""How old a line may be before it is told: no eye minds it, and a starter that has no news is
asked one small question, which costs it less than its own looks at the log's length."""
_LOOKS_PER_S = 200
"""In a large job each container is looked at less often, so that a client stays a light guest."""
_OBSERVE_S = 2.0
"""How long a master may hold its answer when nothing changes; ends also a reader's threads."""
_SILENCE_S = 300.0
"""How long a cluster may say nothing of the job before that ends the reading."""
_AT_ONCE = 32
_BATCH = 500
_AHEAD = 16
"""Batches that may wait for the reader."""
_NOTICE_S = 0.2

_Batch = list[LogLine | Said]


class _GoneError(Exception):
    """Nobody reads any more."""


class _Pipe:
    """What threads found, on its way to the one who reads."""

    def __init__(self) -> None:
        self._queue: Queue[_Batch | BaseException | None] = Queue(_AHEAD)
        self._is_closed = False

    def put(self, item: _Batch | BaseException | None) -> None:
        """Hand on a batch, an error to be raised at the reader's, or None: the end."""
        while not self._is_closed:
            with suppress(Full):
                return self._queue.put(item, timeout=_NOTICE_S)
        raise _GoneError

    def look(self, watch: Watch) -> None:
        """Look at a container and hand on what is found."""
        batch: _Batch = []
        try:
            for item in watch.look():
                batch.append(item)
                if len(batch) == _BATCH:
                    self.put(batch)
                    batch = []
        finally:
            if batch:
                self.put(batch)

    def items(self) -> Iterator[LogLine | Said]:
        """What comes, to the end."""
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield from item

    def close(self) -> None:
        """Nobody reads any more: whoever puts something in is told so."""
        self._is_closed = True


def look_once(watches: Sequence[Watch]) -> Iterator[LogLine | Said]:
    """What these containers have now, in their order, though several are read at a time."""
    pipes = [_Pipe() for _ in watches]
    work: SimpleQueue[tuple[Watch, _Pipe]] = SimpleQueue()
    for each in zip(watches, pipes, strict=True):
        work.put(each)

    def run() -> None:
        while True:
            try:
                watch, pipe = work.get_nowait()
            except Empty:
                return
            try:
                _look_and_end(watch, pipe)
            except _GoneError:
                return
            finally:
                watch.close()

    for _ in watches[:_AT_ONCE]:
        Thread(target=run, daemon=True).start()
    try:
        for pipe in pipes:
            yield from pipe.items()
    finally:
        for pipe in pipes:
            pipe.close()


def _look_and_end(watch: Watch, pipe: _Pipe) -> None:
    try:
        pipe.look(watch)
    except _GoneError:
        raise
    except Exception as exc:
        pipe.put(exc)
    pipe.put(None)


class Following:
    """Follows a job to its end. ``lines`` is its whole life.

    Meanwhile the handle is this object's alone, as it is not for several threads.
    """

    def __init__(
        self, job: YarnJob, status: JobStatus, readers: Readers, starters: Starters
    ) -> None:
        self._job = job
        self._status = status
        self._readers = readers
        self._starters = starters
        self._pipe = _Pipe()
        self._is_over = Event()
        self._watches: dict[str, Watch] = {}
        self._due: PriorityQueue[tuple[float, int]] = PriorityQueue()
        self._looked_at: list[Watch] = []
        self._workers: list[Thread] = []
        self._silent_since: float | None = None

    def lines(self) -> Generator[LogLine | Said, None, JobStatus]:
        """What is written; returns how the job ended."""
        Thread(target=self._observe, daemon=True).start()
        try:
            yield from self._pipe.items()
        finally:
            self._pipe.close()
            self._is_over.set()
        return self._status

    def _observe(self) -> None:
        failure: BaseException | None = None
        try:
            while not (self._status.state.is_final or self._is_over.is_set()):
                self._status = self._next(self._status)
        except Exception as exc:
            failure = exc
        self._is_over.set()
        for _ in self._workers:
            self._due.put((0.0, -1))
        for worker in self._workers:
            worker.join()
        for watch in self._watches.values():
            watch.close()
        try:
            self._pipe.put(failure)
        except _GoneError:
            return

    def _next(self, status: JobStatus) -> JobStatus:
        """Look after the watches, and wait for news of the job."""
        try:
            self._keep(self._starters.sources(status))
            status = self._job.wait(status, timeout_s=_OBSERVE_S)
        except (OutcomeUnknownError, UnreachableError) as exc:
            # Starters are read without it; and it is no news of the job.
            if self._silent_since is None:
                self._silent_since = time.monotonic()
                self._pipe.put([Said(f"{exc}; what can be read without it is read on")])
            elif time.monotonic() - self._silent_since >= _SILENCE_S:
                raise
            self._is_over.wait(_OBSERVE_S)
        else:
            self._silent_since = None
        return status

    def _keep(self, sources: Sequence[Source]) -> None:
        """Have a watch for each container, and let those go whose containers have ended."""
        now = {each.container: each for each in sources if self._readers.wants(each.task)}
        for container, watch in self._watches.items():
            ended = replace(watch.source, starter=None, has_ended=True)
            watch.source = now.pop(container, ended)
        for container, source in now.items():
            watch = Watch(source, self._readers, self._starters.logs_of)
            self._watches[container] = watch
            self._looked_at.append(watch)
            self._due.put((0.0, len(self._looked_at) - 1))
            if len(self._workers) < _AT_ONCE:
                worker = Thread(target=self._work, daemon=True)
                self._workers.append(worker)
                worker.start()

    def _work(self) -> None:
        while True:
            due, number = self._due.get()
            if self._is_over.wait(max(due - time.monotonic(), 0.0)):
                return
            watch = self._looked_at[number]
            try:
                self._pipe.look(watch)
            except _GoneError:
                return
            except Exception as exc:
                self._fail(exc)
                return
            if not watch.is_done:
                pause_s = max(_LOOK_S, len(self._looked_at) / _LOOKS_PER_S)
                self._due.put((time.monotonic() + pause_s, number))

    def _fail(self, exc: Exception) -> None:
        """A bug of ours in a look: the reader is to see it."""
        try:
            self._pipe.put(exc)
        except _GoneError:
            return
