"""Reads the tasks' logs of a job: live from starters and nodes while it runs, then from HDFS.

How a running job is followed::

    observer thread: which containers, has the job ended? ──▶ one reader per container
                                                                   │ due, in turn
    a few threads: read the next container that is due ◀───────────┘
        └── lines, notices ──▶ the caller

A source that hangs holds up one thread, not the lines of other containers. A slow
caller holds up all threads, so that lines do not pile up in memory.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from queue import PriorityQueue
from threading import Event, Thread
from typing import TYPE_CHECKING

from ytf.backends.api import CheckInterrupt, LogLine, Notify, ignore_notice, never_interrupted
from ytf.backends.stream_reader import StreamReaders
from ytf.backends.yarn.logs.aggregated import AggregatedLogReader
from ytf.backends.yarn.logs.container_log_reader import (
    MAX_THREADS,
    ContainerLogReader,
    LogNotice,
    LogPipe,
    ReaderGoneError,
    read_once,
)
from ytf.backends.yarn.logs.live_sources import ContainerLocation, ContainerLocator
from ytf.errors import OutcomeUnknownError, UnreachableError
from ytf.specs.ids import TaskId
from ytf.specs.status import JobStatus

if TYPE_CHECKING:
    from ytf.backends.yarn.job.job_handle import YarnJobHandle

_READ_EVERY_S = 0.25
"""The pause between two reads of a container: no user notices it, and a starter without news
answers one small request, which costs it less than its own checks of the log's size."""
_READS_PER_S = 200
"""The most reads of all containers: in a large job each is read less often, to limit the load."""
_OBSERVE_S = 2.0
"""How long a master may hold its answer when nothing changes. Threads of a caller that has gone
end within this time."""
_SILENCE_S = 300.0
"""How long the cluster may not answer before reading ends with an error."""


def read_logs(
    job: YarnJobHandle,
    status: JobStatus,
    tasks: list[TaskId],
    *,
    follow: bool,
    notify: Notify = ignore_notice,
    check: CheckInterrupt = never_interrupted,
) -> Iterator[LogLine]:
    """Lines of these tasks (all if none is named), as they are now or until the job's end.

    ``status`` is the job's present status. Each byte is read once, from whichever
    source. ``notify`` is told what cannot be read, and why. ``check`` is called while a running
    job has no new lines.
    """
    readers = StreamReaders(tasks)
    yield from _lines(_read_all(job, status, readers, follow=follow, check=check), notify)
    yield from readers.last_lines()


def _read_all(
    job: YarnJobHandle,
    status: JobStatus,
    readers: StreamReaders,
    *,
    follow: bool,
    check: CheckInterrupt,
) -> Iterator[LogLine | LogNotice]:
    if not status.state.is_final:
        locator = ContainerLocator(job)
        if not follow:
            yield from _read_running(locator, status, readers)
            return
        status = yield from LogFollower(job, status, readers, locator).read(check)
    yield from AggregatedLogReader(job, status, readers).read()


def _read_running(
    locator: ContainerLocator, status: JobStatus, readers: StreamReaders
) -> Iterator[LogLine | LogNotice]:
    locations = [each for each in locator.locate(status) if readers.wants(each.task)]
    if locator.master_error is not None:
        yield LogNotice(
            f"the master does not answer: {locator.master_error}; the nodes are asked instead"
        )
    yield from read_once(
        [
            ContainerLogReader(each, readers, locator.open_starter, notify_at_once=True)
            for each in locations
        ]
    )


def _lines(items: Iterator[LogLine | LogNotice], notify: Notify) -> Iterator[LogLine]:
    """The lines. Notices go to ``notify``, of each kind the first."""
    kinds: set[str] = set()
    for item in items:
        if isinstance(item, LogLine):
            yield item
        elif item.kind not in kinds:
            notify(item.text)
            if item.kind is not None:
                kinds.add(item.kind)


class LogFollower:
    """Follows the logs of a running job to its end. To be used once.

    Meanwhile it is the only user of the job's handle, which is not thread-safe.
    """

    def __init__(
        self,
        job: YarnJobHandle,
        status: JobStatus,
        readers: StreamReaders,
        locator: ContainerLocator,
    ) -> None:
        self._job = job
        self._status = status
        self._readers = readers
        self._locator = locator
        self._pipe = LogPipe()
        self._is_over = Event()
        self._container_readers: dict[str, ContainerLogReader] = {}
        self._due: PriorityQueue[tuple[float, int]] = PriorityQueue()
        """When to read which container, by its number in ``_numbered``."""
        self._numbered: list[ContainerLogReader] = []
        self._workers: list[Thread] = []
        self._silent_since: float | None = None

    def read(
        self, check: CheckInterrupt = never_interrupted
    ) -> Generator[LogLine | LogNotice, None, JobStatus]:
        """The lines as they are written; returns the job's final status."""
        Thread(target=self._observe, daemon=True).start()
        try:
            yield from self._pipe.items(check)
        finally:
            self._pipe.close()
            self._is_over.set()
        return self._status

    def _observe(self) -> None:
        failure: BaseException | None = None
        try:
            while not (self._status.state.is_final or self._is_over.is_set()):
                self._status = self._next_status(self._status)
        except Exception as exc:
            failure = exc
        self._is_over.set()
        for _ in self._workers:
            self._due.put((0.0, -1))
        for worker in self._workers:
            worker.join()
        for reader in self._container_readers.values():
            reader.close()
        try:
            self._pipe.put(failure)
        except ReaderGoneError:
            return

    def _next_status(self, status: JobStatus) -> JobStatus:
        """Update the readers of containers, and wait for a change of the job's status."""
        try:
            self._update_readers(self._locator.locate(status))
            status = self._job.wait(status, timeout_s=_OBSERVE_S)
        except (OutcomeUnknownError, UnreachableError) as exc:
            # Starters can be read meanwhile, and it tells nothing of the job.
            if self._silent_since is None:
                self._silent_since = time.monotonic()
                self._pipe.put([LogNotice(f"{exc}; what can be read without it is read on")])
            elif time.monotonic() - self._silent_since >= _SILENCE_S:
                raise
            self._is_over.wait(_OBSERVE_S)
        else:
            self._silent_since = None
        return status

    def _update_readers(self, locations: Sequence[ContainerLocation]) -> None:
        """Begin to read new containers, and mark those as ended that are not there any more."""
        now = {each.container: each for each in locations if self._readers.wants(each.task)}
        for container, reader in self._container_readers.items():
            ended = replace(reader.location, starter=None, has_ended=True)
            reader.location = now.pop(container, ended)
        for container, location in now.items():
            reader = ContainerLogReader(location, self._readers, self._locator.open_starter)
            self._container_readers[container] = reader
            self._numbered.append(reader)
            self._due.put((0.0, len(self._numbered) - 1))
            if len(self._workers) < MAX_THREADS:
                worker = Thread(target=self._work, daemon=True)
                self._workers.append(worker)
                worker.start()

    def _work(self) -> None:
        while True:
            due, number = self._due.get()
            if self._is_over.wait(max(due - time.monotonic(), 0.0)):
                return
            reader = self._numbered[number]
            try:
                self._pipe.put_all(reader)
            except ReaderGoneError:
                return
            except Exception as exc:
                self._fail(exc)
                return
            if not reader.is_done:
                pause_s = max(_READ_EVERY_S, len(self._numbered) / _READS_PER_S)
                self._due.put((time.monotonic() + pause_s, number))

    def _fail(self, exc: Exception) -> None:
        """Pass a bug of ours to the caller."""
        try:
            self._pipe.put(exc)
        except ReaderGoneError:
            return
