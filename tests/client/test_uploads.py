"""What is said of files that cannot travel with a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.client.uploads import collect
from ytf.errors import SpecError
from ytf.specs.job import JobSpec, TaskGroupSpec


def refused(script: str, base: Path) -> str:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true", script=script)
    with pytest.raises(SpecError) as caught:
        collect(spec, base, remote=False)
    return str(caught.value)


def test_a_missing_file_is_said_with_its_directory_once(tmp_path: Path) -> None:
    assert refused("no.py", tmp_path) == f"script: there is no file 'no.py' in {tmp_path}"
    assert refused("a/no.py", tmp_path) == f"script: there is no file 'a/no.py' in {tmp_path / 'a'}"
    absolute = str(tmp_path / "no.py")
    assert refused(absolute, Path("/")) == f"script: there is no file {absolute!r}"
