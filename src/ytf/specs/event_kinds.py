"""The kinds of events that ``ytf events`` shows: stable names for programs that read its JSON."""

from __future__ import annotations

from enum import Enum


class EventKind(Enum):
    """The values of ``JobEvent.event``. A newer ytf may add kinds; none changes its meaning."""

    MASTER_STARTED = "master-started"
    """A master started to run the job; after the first one, as its next attempt."""
    MASTER_UNREACHABLE = "master-unreachable"
    """The master does not answer. The client adds this event to what it can still read."""
    NOTE = "note"
    """The backend or the registry has a message for users, for example why containers are not
    allocated yet."""
    BACKEND_GONE = "backend-gone"
    """The backend is gone for good, and all containers with it."""
    NODE_LOST = "node-lost"
    """A node is lost, and all containers on it."""

    REQUEST_REFUSED = "request-refused"
    """The backend can never allocate the container that a task requested."""
    CONTAINER_ALLOCATED = "container-allocated"
    """A task got a container."""
    CONTAINERS_RECOVERED = "containers-recovered"
    """The backend reported to a new master which containers are still alive."""
    CONTAINER_COMPLETED = "container-completed"
    """A container ended, with all its processes."""
    LAUNCH_FAILED = "launch-failed"
    """The starter of a task could not be launched in its container."""

    STARTER_REGISTERED = "starter-registered"
    """The starter of a task has reported its address."""
    STARTER_LOST = "starter-lost"
    """The starter of a task has been silent for too long."""
    CLUSTER_SPEC_PUBLISHED = "cluster-spec-published"
    """All addresses are known, and the starters get the cluster spec."""

    TASK_STARTED = "task-started"
    """The program of a task started."""
    TASK_EXITED = "task-exited"
    """The program of a task ended."""
    OUTPUT_LOST = "output-lost"
    """The disk of a task's logs is full, and lines of its output may be missing."""
    TASK_RESTART_ORDERED = "task-restart-ordered"
    """The master ordered another attempt of a task, in its container or in a new one."""
    TASK_STOP_ORDERED = "task-stop-ordered"
    """The master ordered a task to stop."""

    JOB_BECAME_IDLE = "job-became-idle"
    """All running programs have been idle for ``timeouts.idle_s``: none used the processor."""
    JOB_IDLE_ENDED = "job-idle-ended"
    """The job is no longer idle: a program uses the processor again, or the job waits for
    something else."""
    DEADLINE_PASSED = "deadline-passed"
    """A time limit or a pause of the job is over."""
    SHELL_REQUESTED = "shell-requested"
    """A user asked for a shell in a task's container (``ytf shell``); reported at most every
    ten minutes for each task and user."""
    KILL_REQUESTED = "kill-requested"
    """Somebody asked to kill the job."""
    JOB_FINISHED = "job-finished"
    """The job ended, and nothing of it runs any more."""
