"""What can go wrong with a cluster of ours, beside the machine not being fit for it."""

from __future__ import annotations

from ytf.errors import YtfError


class ClusterError(YtfError):
    """A daemon ended or did not come up. The message has the last lines of its log."""
