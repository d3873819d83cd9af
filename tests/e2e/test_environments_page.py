"""The commands in ``docs/environments.md`` are accepted, up to the submission itself."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.e2e.harness import Ytf
from tests.packaging.venvs import Venv

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def test_the_commands_of_the_page_are_accepted(ytf: Ytf) -> None:
    Venv(ytf.work / "envs/tf")
    for name in ("requirements.txt", "env.tar.gz"):
        (ytf.work / name).touch()
    (ytf.work / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n")
    [block] = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    *commands, in_hdfs = block.splitlines()
    assert len(commands) == 5
    for command in commands:
        told = ytf.run(*shlex.split(command.replace("~", str(ytf.work))), "--dryrun")
        assert "\nenv: /" in told.stdout, command
    # tests/yarn/test_environments.py has an HDFS. Here there is none.
    refused = ytf.run(*shlex.split(in_hdfs), "--dryrun", code=2)
    assert "no Hadoop configuration was found" in refused.stderr
