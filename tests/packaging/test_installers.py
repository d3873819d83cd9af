"""The programs that install do not outlive the command that runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ytf.errors import SettingsError
from ytf.packaging.installers import InstallProgress, run_step
from ytf.testing.waiting import eventually

PROGRAM = """
from pathlib import Path
from ytf.packaging.installers import InstallProgress, run_step
step = ["sh", "-c", "echo $$ > pid.new; mv pid.new pid; exec sleep 600"]
run_step(step, about="x", cwd=Path.cwd(), progress=InstallProgress(print), hint="")
"""


def test_a_killed_command_takes_its_installer_along(tmp_path: Path) -> None:
    command = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path)
    try:
        eventually((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        assert Path(f"/proc/{pid}").exists()
    finally:
        command.kill()
        command.wait(60)
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_a_failure_has_the_last_lines_and_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    def run(*step: str) -> str:
        with pytest.raises(SettingsError) as caught:
            run_step(step, about="x", cwd=tmp_path, progress=InstallProgress(print), hint="do it")
        assert caught.value.hint == "do it"
        return str(caught.value)

    said = run("sh", "-c", "seq 100; exit 7")
    assert "exited with 7:\n91\n92\n" in said
    assert said.endswith("\n100")
    assert "/no/such/uv cannot be run: No such file or directory" in run("/no/such/uv", "pip")
