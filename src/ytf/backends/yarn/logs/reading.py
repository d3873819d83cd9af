"""Lines of the tasks' logs: from their starters and nodes while the job runs, then from HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ytf.backends.api import LogLine, Tell, silent
from ytf.backends.yarn.logs.gathered import Gathering
from ytf.backends.yarn.logs.live import Following, look_once
from ytf.backends.yarn.logs.starters import Starters
from ytf.backends.yarn.logs.streams import Readers
from ytf.backends.yarn.logs.watching import Said, Watch
from ytf.specs.names import TaskId
from ytf.specs.status import JobStatus

if TYPE_CHECKING:
    from ytf.backends.yarn.job.handle import YarnJob


def read_logs(
    job: YarnJob, status: JobStatus, tasks: list[TaskId], *, follow: bool, tell: Tell = silent
) -> Iterator[LogLine]:
    """Lines of these tasks (all if none is named), as they are now or until the job's end.

    ``status`` is how the job was just now. Each byte is told once, from wherever
    it is read. ``tell`` hears what cannot be read, and why.
    """
    readers = Readers(tasks)
    yield from _heard(_all(job, status, readers, follow=follow), tell)
    yield from readers.rest()


def _all(
    job: YarnJob, status: JobStatus, readers: Readers, *, follow: bool
) -> Iterator[LogLine | Said]:
    if not status.state.is_final:
        starters = Starters(job)
        if not follow:
            yield from _now(starters, status, readers)
            return
        status = yield from Following(job, status, readers, starters).lines()
    yield from Gathering(job, status, readers).lines()


def _now(starters: Starters, status: JobStatus, readers: Readers) -> Iterator[LogLine | Said]:
    sources = [each for each in starters.sources(status) if readers.wants(each.task)]
    if starters.silence is not None:
        yield Said(f"the master does not answer: {starters.silence}; the nodes are asked instead")
    opened = starters.logs_of
    yield from look_once([Watch(each, readers, opened, is_patient=False) for each in sources])


def _heard(found: Iterator[LogLine | Said], tell: Tell) -> Iterator[LogLine]:
    """The lines; what is said goes to ``tell``, one of a kind."""
    kinds: set[str] = set()
    for each in found:
        if isinstance(each, LogLine):
            yield each
        elif each.kind not in kinds:
            tell(each.text)
            if each.kind is not None:
                kinds.add(each.kind)
