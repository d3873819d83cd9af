"""Storage of the journal (blobs), staged files and layers (files), locally and in HDFS."""

from __future__ import annotations

import errno

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk, or of a user's quota, that is full."""
