"""Lines of an ended job's tasks, from where the nodes gather them in HDFS.

Each node uploads some seconds after the job's end what it has, as one file; a
node that is dead never does. What came in time is told while the rest is
waited for, and what will not come is named, with its node.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ytf.backends.api import LogLine
from ytf.backends.yarn.logs.live import look_once
from ytf.backends.yarn.logs.streams import Half, Readers, Sizes
from ytf.backends.yarn.logs.watching import Said, Source, Watch
from ytf.errors import NotFoundError
from ytf.hadoop.logs import (
    AggregatedFile,
    ByteSource,
    ContainerLog,
    find_aggregated,
    read_container_logs,
)
from ytf.hadoop.yarn.records import ApplicationReport, LogStatus
from ytf.specs.names import TaskId, task_id
from ytf.specs.status import JobStatus, TaskStatus
from ytf.storage.sources import FileTree

if TYPE_CHECKING:
    from ytf.backends.yarn.job.handle import YarnJob

_PATIENCE_S = 30.0
"""How long nodes may take."""
_LOOK_S = 0.25
_PROBE_S = 3.0
"""When a node that has gathered nothing is asked whether it is there, and how often."""
_COMPLETE = (LogStatus.SUCCEEDED, LogStatus.FAILED, LogStatus.TIMED_OUT, LogStatus.DISABLED)


@dataclass(frozen=True, order=True)
class Attempt:
    """One try at a task."""

    task: TaskId
    number: int


class GatheredLogs:
    """What one node has gathered. Implements ``Place``.

    The file can be read from its beginning only: whoever asks for halves in
    the order of :meth:`sizes` reads it once.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._ahead = read_container_logs(source)

    def sizes(self) -> Sizes:
        """All halves, in the order they lie in the file."""
        found = ((Half.of_file(log.name), log) for log in read_container_logs(self._source))
        return {half: log.size for half, log in found if half is not None}

    def read(self, half: Half, offset: int) -> Iterator[bytes]:
        """A half from ``offset`` on."""
        log = self._next(half)
        if log is None:
            self._ahead = read_container_logs(self._source)
            log = self._next(half)
        if log is None:
            raise NotFoundError(f"{self._source.name} has no {half.file}")
        return _beyond(log.pieces, offset)

    def _next(self, half: Half) -> ContainerLog | None:
        return next((log for log in self._ahead if log.name == half.file), None)


def _beyond(pieces: Iterator[bytes], offset: int) -> Iterator[bytes]:
    for piece in pieces:
        if offset >= len(piece):
            offset -= len(piece)
        else:
            yield piece[offset:]
            offset = 0


class Gathering:
    """Tells what was not told before of an ended job. ``lines`` is its whole life."""

    def __init__(self, job: YarnJob, status: JobStatus, readers: Readers) -> None:
        self._job = job
        self._tree = FileTree(job.files)
        self._readers = readers
        self._told: set[str] = set()
        self._away: set[Attempt] = set()
        self._nothing: NotFoundError | None = None
        self._has_containers = any(task.container is not None for task in status.tasks)
        self._has_streams = False
        self._last = {
            Attempt(task_id(task.group, task.index), task.attempt): task
            for task in status.tasks
            if task.container is not None and readers.wants(task_id(task.group, task.index))
        }
        """The newest attempts, of which it is known where they ran."""
        self._awaited = {
            Attempt(each.task, number)
            for each in self._last
            for number in range(1, each.number + 1)
        }

    def lines(self) -> Iterator[LogLine | Said]:
        """What the nodes have gathered, as it comes; raises ``NotFoundError`` if there is nothing.

        Nobody waits for a node that does not answer. That no task ever ran is
        said instead, and at once where there was not even a master.
        """
        if not self._has_containers and self._had_no_master():
            yield self._none_ran()
            return
        knows_whom = bool(self._awaited)
        begun = time.monotonic()
        probe_at = begun + _PROBE_S
        while True:
            # Asked before looking, so that the last look sees all there is.
            progress = self._progress()
            for file in self._new_files():
                yield from self._of_file(GatheredLogs(self._tree.source(file.path)))
            waits = self._awaited - self._away
            if progress in _COMPLETE or (knows_whom and not waits):
                break
            now = time.monotonic()
            if now >= begun + _PATIENCE_S:
                break
            if now >= probe_at:
                probe_at = now + _PROBE_S
                yield from self._ask_nodes(waits)
                yield from self._waiting(waits - self._last.keys())
            time.sleep(_LOOK_S)
        yield from self._leftover(progress)

    def _had_no_master(self) -> bool:
        """Whether YARN ended the job before it had any container."""
        report = self._job.report()
        # To others than its owner YARN does not tell what a job has used.
        if report is None or report.user != self._job.rm.user:
            return False
        return _had_no_container(report)

    def _none_ran(self) -> Said:
        return Said(f"no task of {self._job.job} ever ran, so there are no logs")

    def _progress(self) -> LogStatus:
        """How far YARN says that the gathering is; to the end, where it knows the job no more."""
        report = self._job.report()
        return LogStatus.SUCCEEDED if report is None else report.log_status

    def _new_files(self) -> list[AggregatedFile]:
        job = self._job
        try:
            found = find_aggregated(self._tree, job.rm.conf, job.owner, job.job)
        except NotFoundError as exc:
            self._nothing = exc
            return []
        new = [file for file in found if file.path not in self._told]
        self._told.update(file.path for file in new)
        return new

    def _of_file(self, place: GatheredLogs) -> Iterator[LogLine]:
        sizes = place.sizes()
        streams = list(dict.fromkeys(half.stream for half in sizes))
        self._has_streams = self._has_streams or bool(streams)
        self._awaited -= {Attempt(each.task, each.attempt) for each in streams}
        wanted = [reader for each in streams if (reader := self._readers.of(each)) is not None]
        # A node sorts by name, which puts an older half behind its newest: see
        # AggregatedLogFormat.LogValue. So all of those first, then the file once more.
        for reader in wanted:
            yield from reader.older_news(place, sizes)
        for reader in wanted:
            yield from reader.newest_news(place, sizes)

    def _ask_nodes(self, attempts: set[Attempt]) -> Iterator[LogLine | Said]:
        """What the nodes still have of attempts; that one does not answer is told, and noted."""
        asked = sorted(attempts & self._last.keys())
        if not asked:
            return
        webs = self._webs()
        watches: dict[Attempt, Watch] = {}
        for each in asked:
            source = _source(each.task, self._last[each], webs)
            if source.web is not None:
                watches[each] = Watch(source, self._readers, is_patient=False)
            else:
                self._away.add(each)
                yield Said(
                    f"the log of {each.task} on {source.node or 'its node'} cannot be read:"
                    " YARN knows no such node any more"
                )
        yield from look_once(list(watches.values()))
        self._awaited -= {each for each, watch in watches.items() if watch.has_read}
        self._away |= {each for each, watch in watches.items() if watch.is_node_silent}

    def _waiting(self, attempts: set[Attempt]) -> Iterator[Said]:
        if attempts:
            yield Said(
                f"the log of {_names(attempts)} is waited for, up to {_PATIENCE_S:g} s: its node"
                " has not gathered it yet, and may be lost",
                kind="waiting",
            )

    def _webs(self) -> dict[str, str]:
        """The web addresses of the nodes that YARN knows, lost ones included."""
        nodes = self._job.rm.ask(lambda rm: rm.nodes())
        return {str(node.node): node.http_address for node in nodes}

    def _leftover(self, progress: LogStatus) -> Iterator[LogLine | Said]:
        """What was not gathered: from the nodes, where they still have it."""
        if progress is not LogStatus.SUCCEEDED:
            yield from self._ask_nodes(self._awaited - self._away)
            lost = self._awaited - self._away
            if lost:
                yield Said(
                    f"no log of {_names(lost)} is in HDFS, and no node shows it: it may be lost"
                    f" with its node (YARN says of the gathering: {progress.name})"
                )
        if self._nothing is not None and not self._told and not self._readers.have_begun():
            raise self._nothing
        # A record that has no containers may have been made without the journal: files decide.
        is_complete = progress is LogStatus.SUCCEEDED and bool(self._told)
        if is_complete and not (self._has_containers or self._has_streams):
            yield self._none_ran()


def _had_no_container(report: ApplicationReport) -> bool:
    """Whether an application ended without any, as far as YARN tells what it used at all."""
    if not report.state.ended or report.usage is None:
        return False
    is_first = report.attempt is None or report.attempt.number == 1
    was_there = report.launched_ms > 0 or report.rpc_port > 0
    has_used = report.usage.memory_mb_seconds > 0 or report.usage.vcore_seconds > 0
    return is_first and not was_there and not has_used


def _names(attempts: Iterable[Attempt]) -> str:
    return ", ".join(f"{each.task} (attempt {each.number})" for each in sorted(attempts))


def _source(task: TaskId, status: TaskStatus, webs: Mapping[str, str]) -> Source:
    assert status.container is not None
    # A master that was started again does not know where those ran that had ended before.
    web = webs.get(status.node or "") if status.log_url is None else urlsplit(status.log_url).netloc
    return Source(
        task=task,
        container=status.container,
        node=status.node,
        web=web,
        starter=None,
        has_ended=True,
    )
