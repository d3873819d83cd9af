"""Reads the aggregated logs of an ended job in HDFS, and what nodes have not aggregated yet.

Some seconds after the job's end each node uploads the logs of its containers as one
file; a dead node never does. Files are read as they come. Logs that will not come
are named to the user, with their node.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ytf.backends.api import LogLine
from ytf.backends.stream_reader import FileSizes, StreamFile, StreamReaders
from ytf.backends.yarn.logs.container_log_reader import ContainerLogReader, LogNotice, read_once
from ytf.backends.yarn.logs.live_sources import ContainerLocation
from ytf.errors import NotFoundError
from ytf.hadoop.logs import (
    AggregatedFile,
    ByteSource,
    ContainerLog,
    find_aggregated,
    read_container_logs,
)
from ytf.hadoop.yarn.records import ApplicationReport, LogStatus
from ytf.specs.ids import TaskId, task_id
from ytf.specs.status import JobStatus, TaskStatus
from ytf.storage.files import FileTree

if TYPE_CHECKING:
    from ytf.backends.yarn.job.job_handle import YarnJobHandle

_AGGREGATION_S = 30.0
"""How long nodes may take to aggregate."""
_POLL_S = 0.25
_PROBE_S = 3.0
"""After how long, and how often, nodes that have aggregated nothing are called."""
_COMPLETE = (LogStatus.SUCCEEDED, LogStatus.FAILED, LogStatus.TIMED_OUT, LogStatus.DISABLED)


@dataclass(frozen=True, order=True)
class LoggedAttempt:
    """One attempt of a task."""

    task: TaskId
    number: int


class AggregatedLogSource:
    """The streams in one node's aggregated file. Implements ``LogSource``.

    The file can be read from its beginning only: streams that are read in the order
    of :meth:`sizes` take one pass over it.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._ahead = read_container_logs(source)

    def sizes(self) -> FileSizes:
        """All stream files, in their order in the aggregated file."""
        found = ((StreamFile.parse(log.name), log) for log in read_container_logs(self._source))
        return {file: log.size for file, log in found if file is not None}

    def read(self, file: StreamFile, offset: int) -> Iterator[bytes]:
        """The bytes of a stream file from ``offset`` on."""
        log = self._next(file)
        if log is None:
            self._ahead = read_container_logs(self._source)
            log = self._next(file)
        if log is None:
            raise NotFoundError(f"{self._source.name} has no {file.name}")
        return _from_offset(log.pieces, offset)

    def _next(self, file: StreamFile) -> ContainerLog | None:
        return next((log for log in self._ahead if log.name == file.name), None)


def _from_offset(pieces: Iterator[bytes], offset: int) -> Iterator[bytes]:
    for piece in pieces:
        if offset >= len(piece):
            offset -= len(piece)
        else:
            yield piece[offset:]
            offset = 0


class AggregatedLogReader:
    """Reads what was not read before of an ended job's logs. To be used once."""

    def __init__(self, job: YarnJobHandle, status: JobStatus, readers: StreamReaders) -> None:
        self._job = job
        self._tree = FileTree(job.files)
        self._readers = readers
        self._read_paths: set[str] = set()
        self._lost: set[LoggedAttempt] = set()
        """Attempts whose node does not answer or is not known: the user was told."""
        self._not_found: NotFoundError | None = None
        self._has_containers = any(task.container is not None for task in status.tasks)
        self._has_streams = False
        self._last = {
            LoggedAttempt(task_id(task.group, task.index), task.attempt): task
            for task in status.tasks
            if task.container is not None and readers.wants(task_id(task.group, task.index))
        }
        """The newest attempt of each task: only of these the container is known."""
        self._awaited = {
            LoggedAttempt(each.task, number)
            for each in self._last
            for number in range(1, each.number + 1)
        }

    def read(self) -> Iterator[LogLine | LogNotice]:
        """The aggregated lines as they come; raises ``NotFoundError`` if there are none.

        Nodes that do not answer are not waited for. If no task ever ran, a notice
        says so, at once if the job had no master either.
        """
        if not self._has_containers and self._had_no_master():
            yield self._none_ran()
            return
        knows_attempts = bool(self._awaited)
        begun = time.monotonic()
        probe_at = begun + _PROBE_S
        while True:
            # Asked before listing, so that the last listing is complete.
            progress = self._aggregation_status()
            for file in self._new_files():
                yield from self._read_file(AggregatedLogSource(self._tree.source(file.path)))
            waits = self._awaited - self._lost
            if progress in _COMPLETE or (knows_attempts and not waits):
                break
            now = time.monotonic()
            if now >= begun + _AGGREGATION_S:
                break
            if now >= probe_at:
                probe_at = now + _PROBE_S
                yield from self._read_nodes(waits)
                yield from self._notice_waiting(waits - self._last.keys())
            time.sleep(_POLL_S)
        yield from self._finish(progress)

    def _had_no_master(self) -> bool:
        """Whether YARN ended the job before it had any container."""
        report = self._job.report()
        # YARN tells only the owner which resources a job has used.
        if report is None or report.user != self._job.rm.user:
            return False
        return _had_no_container(report)

    def _none_ran(self) -> LogNotice:
        return LogNotice(f"no task of {self._job.job} ever ran, so there are no logs")

    def _aggregation_status(self) -> LogStatus:
        """YARN's status of the aggregation; complete if YARN does not know the job any more."""
        report = self._job.report()
        return LogStatus.SUCCEEDED if report is None else report.log_status

    def _new_files(self) -> list[AggregatedFile]:
        job = self._job
        try:
            found = find_aggregated(self._tree, job.rm.conf, job.owner, job.job)
        except NotFoundError as exc:
            self._not_found = exc
            return []
        new = [file for file in found if file.path not in self._read_paths]
        self._read_paths.update(file.path for file in new)
        return new

    def _read_file(self, source: AggregatedLogSource) -> Iterator[LogLine]:
        sizes = source.sizes()
        streams = list(dict.fromkeys(file.stream for file in sizes))
        self._has_streams = self._has_streams or bool(streams)
        self._awaited -= {LoggedAttempt(each.task, each.attempt) for each in streams}
        wanted = [reader for each in streams if (reader := self._readers.reader(each)) is not None]
        # A node sorts by name, which puts a rotated file after the current one: see
        # AggregatedLogFormat.LogValue. So all rotated ones first, then a second pass.
        for reader in wanted:
            yield from reader.read_rotated(source, sizes)
        for reader in wanted:
            yield from reader.read_current(source, sizes)

    def _read_nodes(self, attempts: set[LoggedAttempt]) -> Iterator[LogLine | LogNotice]:
        """What nodes still have of attempts; a notice for each node that does not answer."""
        located = sorted(attempts & self._last.keys())
        if not located:
            return
        webs = self._webs()
        container_readers: dict[LoggedAttempt, ContainerLogReader] = {}
        for each in located:
            location = _location(each.task, self._last[each], webs)
            if location.web is not None:
                container_readers[each] = ContainerLogReader(
                    location, self._readers, notify_at_once=True
                )
            else:
                self._lost.add(each)
                yield LogNotice(
                    f"the log of {each.task} on {location.node or 'its node'} cannot be read:"
                    " YARN knows no such node any more"
                )
        yield from read_once(list(container_readers.values()))
        self._awaited -= {each for each, reader in container_readers.items() if reader.has_read}
        self._lost |= {each for each, reader in container_readers.items() if reader.is_node_silent}

    def _notice_waiting(self, attempts: set[LoggedAttempt]) -> Iterator[LogNotice]:
        if attempts:
            yield LogNotice(
                f"the log of {_names(attempts)} is waited for, up to {_AGGREGATION_S:g} s: its node"
                " has not aggregated it yet, and may be lost",
                kind="waiting",
            )

    def _webs(self) -> dict[str, str]:
        """The web addresses of the nodes that YARN knows, lost ones included."""
        nodes = self._job.rm.call(lambda rm: rm.nodes())
        return {str(node.node): node.http_address for node in nodes}

    def _finish(self, progress: LogStatus) -> Iterator[LogLine | LogNotice]:
        """What was not aggregated, from the nodes if they still have it; then the final notices."""
        if progress is not LogStatus.SUCCEEDED:
            yield from self._read_nodes(self._awaited - self._lost)
            missing = self._awaited - self._lost
            if missing:
                yield LogNotice(
                    f"no log of {_names(missing)} is in HDFS, and no node shows it: it may be lost"
                    f" with its node (YARN says of the aggregation: {progress.name})"
                )
        if self._not_found is not None and not self._read_paths and not self._readers.have_begun():
            raise self._not_found
        # A record without containers may have been made without the journal: the files decide.
        is_complete = progress is LogStatus.SUCCEEDED and bool(self._read_paths)
        if is_complete and not (self._has_containers or self._has_streams):
            yield self._none_ran()


def _had_no_container(report: ApplicationReport) -> bool:
    """Whether an application ended without any container; False if YARN does not tell its usage."""
    if not report.state.ended or report.usage is None:
        return False
    is_first = report.attempt is None or report.attempt.number == 1
    was_there = report.launched_ms > 0 or report.rpc_port > 0
    has_used = report.usage.memory_mb_seconds > 0 or report.usage.vcore_seconds > 0
    return is_first and not was_there and not has_used


def _names(attempts: Iterable[LoggedAttempt]) -> str:
    return ", ".join(f"{each.task} (attempt {each.number})" for each in sorted(attempts))


def _location(task: TaskId, status: TaskStatus, webs: Mapping[str, str]) -> ContainerLocation:
    assert status.container is not None
    # A restarted master does not know where tasks ran that had ended before.
    web = webs.get(status.node or "") if status.log_url is None else urlsplit(status.log_url).netloc
    return ContainerLocation(
        task=task,
        container=status.container,
        node=status.node,
        web=web,
        starter=None,
        has_ended=True,
    )
