"""``ytf-submit --wait`` on a job that runs until it is killed, for tests of signals.

``python -m tests.cli.driver quick|slow|over WORDS…``: a slow job never dies, and
one that is over needs not be killed.
"""

from __future__ import annotations

import sys
import threading

from tests.client.fakes import FakeBackend, FakeHandle, status
from ytf import backends
from ytf.cli.submit import command
from ytf.specs.status import JobState, JobStatus


class EndlessHandle(FakeHandle):
    def wait(self, known: JobStatus | None = None, timeout_s: float = 30.0) -> JobStatus:
        if self.killed and sys.argv[1] == "quick":
            return status(JobState.KILLED)
        threading.Event().wait(timeout_s)
        return self.statuses[0]

    def kill(self, reason: str) -> None:
        self.killed.append(reason)
        print(f"kill: {reason}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    over = sys.argv[1] == "over"
    fake = FakeBackend(
        FakeHandle(status(JobState.SUCCEEDED)) if over else EndlessHandle(status(JobState.RUNNING))
    )
    backends.get_backend = lambda name: fake
    sys.exit(command.main(sys.argv[2:]))
