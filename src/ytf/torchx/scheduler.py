"""The scheduler ``yarn`` of torchx: ``torchx run -s yarn …`` submits a job of ytf (ADR 36).

An app's id is its job's, so that the commands of both know it.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import List  # noqa: UP035

import yaml
from torchx.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream
from torchx.specs import (
    NONE,
    AppDef,
    AppDryRunInfo,
    AppState,
    CfgVal,
    ReplicaStatus,
    Resource,
    Role,
    RoleStatus,
    runopts,
)
from torchx.workspace.api import WorkspaceMixin

from ytf import backends
from ytf.backends.api import JobHandle, LogLine
from ytf.client.job import choose_backend, submit_checked
from ytf.client.progress.reporter import open_reporter
from ytf.errors import NotFoundError, YtfError
from ytf.specs import codec
from ytf.specs.event_kinds import EventKind
from ytf.specs.ids import task_id
from ytf.specs.job import JobSpec
from ytf.specs.status import JobEvent, JobState, JobStatus, TaskState, TaskStatus
from ytf.terminal_text import printable, printable_output
from ytf.torchx.app_spec import WORKSPACE, group_name, job_spec
from ytf.torchx.workspace import copy_workspace, workspace_directory

_log = logging.getLogger("ytf")

_JOB_STATES = {
    JobState.SUBMITTED: AppState.SUBMITTED,
    JobState.STARTING: AppState.PENDING,
    JobState.RUNNING: AppState.RUNNING,
    JobState.SUCCEEDED: AppState.SUCCEEDED,
    JobState.FAILED: AppState.FAILED,
    JobState.KILLED: AppState.CANCELLED,
}
_TASK_STATES = {
    TaskState.PENDING: AppState.PENDING,
    TaskState.ALLOCATED: AppState.PENDING,
    TaskState.STARTING: AppState.PENDING,
    TaskState.RUNNING: AppState.RUNNING,
    TaskState.SUCCEEDED: AppState.SUCCEEDED,
    TaskState.FAILED: AppState.FAILED,
    TaskState.KILLED: AppState.CANCELLED,
    TaskState.LOST: AppState.FAILED,
}


@dataclass
class JobRequest:
    """What ``torchx run --dryrun`` shows and ``schedule`` submits."""

    spec: JobSpec
    backend: str | None

    def __str__(self) -> str:
        fields = {"backend": self.backend or "ytf's choice", **codec.to_dict(self.spec)}
        return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


class YarnScheduler(WorkspaceMixin[None], Scheduler[Mapping[str, CfgVal]]):
    """Runs the apps of torchx as jobs of ytf, on YARN or, with ``backend=local``, right here."""

    def __init__(self, session_name: str) -> None:
        super().__init__("yarn", session_name)
        self._copies: list[tempfile.TemporaryDirectory[str]] = []

    def close(self) -> None:
        """Remove the copies of workspaces, which submitted jobs do not need any more."""
        while self._copies:
            self._copies.pop().cleanup()

    def _run_opts(self) -> runopts:
        opts = runopts()
        add = opts.add
        add("backend", type_=str, help="yarn or local; default: as ytf-submit chooses")
        add("queue", type_=str, help="the queue of the cluster")
        add("name", type_=str, help="the job's name; default: the app's")
        add(
            "env",
            type_=str,
            help="what python is in the tasks: current (this environment is shipped; the default), "
            "the directory of another one, or node",
        )
        add(
            "docker",
            type_=bool,
            default=False,
            help="run the roles in docker containers of their images, which are ignored otherwise",
        )
        add(
            "framework",
            type_=str,
            help="which variables the programs get (ytf help job.yaml); default: torchrun's for "
            "torchrun, else none",
        )
        add("node_label", type_=str, help="the label of the nodes for the tasks")
        add("placement", type_=str, help="any, spread, pack or apart")
        add("priority", type_=int, help="a job goes before those of its queue with a lower one")
        # torchx knows a list of texts by this very name only.
        add("tags", type_=List[str], help="words to find the job by in YARN")  # noqa: UP006
        add("acl_view", type_=str, help="who else may look at the job: 'alice,bob admins'")
        add("acl_modify", type_=str, help="who else may kill the job")
        return opts

    def build_workspace_and_update_role(
        self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]
    ) -> None:
        """Copy the workspace: the role's tasks begin in this copy. No image is built.

        An image that is a directory of this machine takes its place.
        """
        if _is_directory(role.image):
            return
        with _hints_told():
            source = workspace_directory(workspace)
        self._copies.append(tempfile.TemporaryDirectory(prefix="ytf-torchx-"))
        copy = Path(self._copies[-1].name, "workspace")
        copy_workspace(source, copy)
        role.metadata[WORKSPACE] = str(copy)

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[JobRequest]:
        backend = cfg.get("backend")
        for role in app.roles:
            if _is_directory(role.image):
                role.metadata[WORKSPACE] = role.image
        with _hints_told():
            request = JobRequest(job_spec(app, cfg), None if backend is None else str(backend))
        return AppDryRunInfo(request, str)

    def schedule(self, dryrun_info: AppDryRunInfo[JobRequest]) -> str:
        """Submit the job; returns its id once it is accepted."""
        request = dryrun_info.request
        with _hints_told(), open_reporter(None) as reporter:
            # Not tracked in MLflow: nobody here waits for the end.
            return submit_checked(request.spec, choose_backend(request.backend), reporter).id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return the state of a job and its tasks, also after its end; None if there is none."""
        with _hints_told():
            handle = _open(app_id)
            if handle is None:
                return None
            status = handle.status()
            failed = any(task.state is TaskState.FAILED for task in status.tasks)
            events = handle.events() if failed else []
        groups: dict[str, list[TaskStatus]] = defaultdict(list)
        for task in status.tasks:
            groups[task.group].append(task)
        return DescribeAppResponse(
            app_id=app_id,
            state=_JOB_STATES[status.state],
            num_restarts=max([task.attempt for task in status.tasks], default=1) - 1,
            msg=printable(status.diagnostics) or NONE,
            ui_url=status.tracking_url,
            roles=[_role(name, tasks) for name, tasks in groups.items()],
            roles_statuses=[
                RoleStatus(name, [_replica(task, status, events) for task in tasks])
                for name, tasks in groups.items()
            ],
        )

    def list(self) -> list[ListAppResponse]:
        """Return the user's own jobs on the backend that ``ytf`` would choose, newest first."""
        with _hints_told():
            backend = choose_backend(None)
            user = backend.user()
            return [
                ListAppResponse(app_id=job.id, state=_JOB_STATES[job.state])
                for job in backend.list()
                if job.user == user
            ]

    def _cancel_existing(self, app_id: str) -> None:
        with _hints_told():
            backends.open_job(app_id).kill("cancelled with torchx")

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """Yield what a replica wrote, stdout and stderr by default, all of its attempts.

        ``should_tail`` goes on until the job has ended. Lines have no times: ``since`` and
        ``until`` are ignored, with a warning. Raises ``NotFoundError``, a ``LookupError``,
        for a replica that the job does not have.
        """
        if since is not None or until is not None:
            _log.warning("lines have no times: since and until are ignored")
        wanted = None if streams in (None, Stream.COMBINED) else Stream(streams).value
        pattern = re.compile(regex) if regex else None
        with _hints_told():
            # torchx reads each replica in a thread of its own, and a handle is for one thread.
            handle = backends.open_job(app_id)
            lines = handle.logs([task_id(group_name(role_name), k)], follow=should_tail)
        return _selected(lines, wanted, pattern)


def create_scheduler(session_name: str, **kwargs: object) -> YarnScheduler:
    """Make the scheduler, for torchx. Parameters that are meant for others are ignored."""
    return YarnScheduler(session_name)


def _is_directory(image: str) -> bool:
    return Path(image).is_absolute() and Path(image).is_dir()


def _open(app_id: str) -> JobHandle | None:
    try:
        return backends.open_job(app_id)
    except NotFoundError:
        return None


def _selected(
    lines: Iterable[LogLine], stream: str | None, pattern: re.Pattern[str] | None
) -> Iterator[str]:
    for line in lines:
        if stream in (None, line.stream) and (pattern is None or pattern.search(line.text)):
            # torchx prints it as it is.
            yield f"{printable_output(line.text)}\n"


def _role(name: str, tasks: list[TaskStatus]) -> Role:
    resource = Resource(cpu=tasks[0].vcores or -1, gpu=-1, memMB=tasks[0].memory_mb or -1)
    return Role(name=name, image="", num_replicas=len(tasks), resource=resource)


def _replica(task: TaskStatus, status: JobStatus, events: list[JobEvent]) -> ReplicaStatus:
    return ReplicaStatus(
        id=task.index,
        state=_TASK_STATES[task.state],
        role=task.group,
        hostname=task.host or task.node or "",
        structured_error_msg=_error(task, status, events)
        if task.state is TaskState.FAILED
        else NONE,
    )


def _error(task: TaskStatus, status: JobStatus, events: list[JobEvent]) -> str:
    """What torchx prints of a failed replica, in the form of torchelastic's error files."""
    name = task_id(task.group, task.index)
    ends = [e.at for e in events if e.task == name and e.event == EventKind.TASK_EXITED.value]
    at = ends[-1] if ends else status.finished or status.started or 0.0
    if task.signal is None:
        code, how = task.exit_code, f"exited with code {task.exit_code}"
    else:
        code, how = -task.signal, f"was ended by signal {task.signal}"
    reason = printable(task.reason) or f"{name} {how}"
    about = {"message": reason, "errorCode": code, "extraInfo": {"timestamp": int(at)}}
    return json.dumps({"message": about})


@contextmanager
def _hints_told() -> Iterator[None]:
    """Log the hint of an error, of which torchx shows the message only."""
    try:
        yield
    except YtfError as error:
        if error.hint:
            _log.error("%s", error.hint)
        raise
