"""``ytf`` with one running job, for tests of ``ytf top`` on a terminal.

After SIGUSR1 the cluster does not answer; after SIGUSR2 the job has ended.
"""

from __future__ import annotations

import signal
import sys

from tests.client.fakes import FakeBackend, FakeHandle, status, task
from tests.specs.usages import task_usage
from ytf import backends
from ytf.cli import gc, main
from ytf.errors import UnreachableError
from ytf.specs.status import JobState, JobStatus, TaskState

GB = 1024**3
RUNNING = status(
    JobState.RUNNING,
    task("ps", 0, TaskState.RUNNING, memory_mb=512, usage=task_usage(memory_bytes=3 * GB)),
    task("worker", 0, TaskState.RUNNING, memory_mb=8192, usage=task_usage(cpu_cores=3.25)),
    task("worker", 1, TaskState.PENDING, memory_mb=8192),
    task("worker", 2, TaskState.PENDING, memory_mb=8192),
)
ENDED = status(
    JobState.SUCCEEDED,
    task("worker", 0, TaskState.SUCCEEDED, usage=task_usage().as_ended()),
)


class Handle(FakeHandle):
    """A job that signals change."""

    is_reachable = True

    def status(self) -> JobStatus:
        if not self.is_reachable:
            raise UnreachableError("the cluster does not answer")
        return super().status()


if __name__ == "__main__":
    handle = Handle(RUNNING)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(handle, "is_reachable", False))
    signal.signal(signal.SIGUSR2, lambda *_: handle.statuses.__setitem__(0, ENDED))
    fake = FakeBackend(handle)
    backends.get_backend = lambda name: fake
    gc.automatic_gc = lambda: None
    sys.exit(main.main(sys.argv[1:]))
