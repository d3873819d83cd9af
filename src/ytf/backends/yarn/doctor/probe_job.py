"""The job that ``ytf doctor`` submits to YARN: its task uses HDFS from a node."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ytf.backends.checks import CheckFinding, compare_clocks, failed, note, ok
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.hdfs_checks import scratch_directory
from ytf.backends.yarn.doctor.node_check import NodeFacts
from ytf.decoding import decode_json
from ytf.specs.amounts import format_bytes
from ytf.specs.checks import CheckName, CheckState
from ytf.specs.event_kinds import EventKind
from ytf.specs.job import Framework, JobSpec, MasterSpec, Resources, TaskGroupSpec, Timeouts
from ytf.specs.status import JobEvent, JobStatus

_MODULE = "ytf.backends.yarn.doctor.node_check"
_SCRIPT = "node_check.sh"
_MEMORY_MB = 256
_LEAST_DISK = 1 << 30
_MOST_BYTES = 64 * 1024


class YarnProbeJob:
    """Implements ``ProbeJob``: one task with ytf's own runtime, which writes a file in HDFS."""

    needs: tuple[CheckName, ...] = (
        CheckName.HOME,
        CheckName.QUEUE,
        CheckName.NODES,
        CheckName.HDFS_FILES,
        CheckName.LAYERS,
    )
    limit_s = 120.0

    def __init__(self, cluster: Cluster, queue: str, python: str | None) -> None:
        self._cluster = cluster
        self._queue = queue
        self._python = python
        self._made = ExitStack()
        self._facts = ""

    def spec(self) -> JobSpec:
        """Make a directory for the task's file, and the script that runs the program."""
        # Imported here: it loads slowly, and nothing else of a doctor needs it.
        from ytf.backends.yarn.submit.upload import runtime_script
        from ytf.packaging.layer_cache import LayerCache

        files = self._cluster.files
        here = Path(self._made.enter_context(tempfile.TemporaryDirectory(prefix="ytf-doctor-")))
        there = self._made.enter_context(scratch_directory(files, self._cluster.home.root))
        self._facts = f"{there}/{secrets.token_hex(8)}"
        script = here / _SCRIPT
        script.write_text(
            runtime_script(LayerCache.for_user(), _MODULE, self._python), encoding="utf-8"
        )
        return JobSpec(
            name="ytf doctor",
            queue=self._queue,
            groups={"worker": TaskGroupSpec(count=1, resources=Resources(memory=_MEMORY_MB))},
            script=str(script),
            command=f'exec sh "$DTF_TASK_SCRIPT" {shlex.quote(files.uri(self._facts))}',
            framework=Framework.NONE,
            python=self._python,
            master=MasterSpec(max_attempts=1),
            timeouts=Timeouts(job_s=self.limit_s),
        )

    def conclude(
        self, status: JobStatus, events: Sequence[JobEvent], start_s: float
    ) -> CheckFinding:
        """Read what the task has written."""
        data = b"".join(self._cluster.files.read(self._facts, 0, _MOST_BYTES))
        try:
            facts = decode_json(data, NodeFacts)
        except ValueError as exc:
            return failed(
                f"what the task wrote to {self._facts} cannot be read: {exc}",
                "look who else writes to your directories in HDFS",
            )
        node = status.tasks[0].node or facts.host
        clock = compare_clocks(
            _skew_s(facts.at, events), "times of the task's events", "the job's master"
        )
        if clock.state is not CheckState.OK:
            return failed(f"the clock of {node} {clock.text}", clock.hint)
        text = (
            f"a task ran on {node} after {start_s:.1f} s, wrote and read a file in HDFS from "
            f"there; its clock agrees with the master's; {format_bytes(facts.disk_free)} are free "
            "on its disk"
        )
        if facts.disk_free < _LEAST_DISK:
            return note(text, "make room on the disks of that node: yarn.nodemanager.local-dirs")
        return ok(text)

    def close(self) -> None:
        """Remove the directory in HDFS and the script."""
        self._made.close()


def _skew_s(at: float, events: Sequence[JobEvent]) -> float:
    """How far the node's clock is ahead of the master's, at least.

    The program ran between two events that the master dated.
    """
    times = {event.event: event.at for event in events}
    began = times.get(EventKind.STARTER_REGISTERED.value, at)
    ended = times.get(EventKind.TASK_EXITED.value, at)
    return min(0.0, at - began) + max(0.0, at - ended)
