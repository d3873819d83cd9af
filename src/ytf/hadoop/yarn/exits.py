"""Why a container ended: the exit statuses that YARN itself gives.

0 to 255 are the process's own, 128 + n for signal n; the negative ones are
``ContainerExitStatus``.
"""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The statuses that are not a process's."""

    INVALID = -1000
    """It still runs."""
    ABORTED = -100
    """Released by its master, lost with its node, or never started in time."""
    DISKS_FAILED = -101
    PREEMPTED = -102
    KILLED_EXCEEDED_VMEM = -103
    KILLED_EXCEEDED_PMEM = -104
    KILLED_BY_APPMASTER = -105
    KILLED_BY_RESOURCEMANAGER = -106
    KILLED_AFTER_APP_COMPLETION = -107
    KILLED_BY_CONTAINER_SCHEDULER = -108
    """An opportunistic container that had to make room."""
    KILLED_FOR_EXCESS_LOGS = -109
