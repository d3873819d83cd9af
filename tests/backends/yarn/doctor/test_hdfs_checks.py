"""What HDFS refuses, as lines of ``ytf doctor``."""

from __future__ import annotations

from typing import cast

import pytest

from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.hdfs_checks import HdfsChecks
from ytf.errors import OutcomeUnknownError, UnreachableError, YtfError
from ytf.specs.checks import CheckState


class Refusing:
    """A cluster whose HDFS answers every call with an error."""

    def __init__(self, error: YtfError) -> None:
        self.error = error
        self.files = self.home = self
        self.root = "/user/alice/.ytf"

    def stat(self, path: str) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (UnreachableError("Name node is in safe mode.", hint="x"), "leaves safe mode"),
        (OutcomeUnknownError("Connection refused", hint="x"), "see whether DataNodes run"),
    ],
)
def test_a_file_that_cannot_be_written_says_what_to_do(error: YtfError, hint: str) -> None:
    found = HdfsChecks(cast("Cluster", Refusing(error))).files()
    assert found.state is CheckState.FAILED
    assert found.text == str(error)
    assert hint in (found.hint or "")
