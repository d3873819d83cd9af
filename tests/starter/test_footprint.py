"""What the starter costs a node, and what it may lean on."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ytf.starter
from tests.starter.conftest import RunningStarter
from tests.starter.costly_modules import COSTLY
from tests.starter.fake_master import FakeMaster
from ytf.backends.launch import starter_command

ROOT = Path(ytf.starter.__file__).parent.parent
OURS = ("ytf.starter", "ytf.frameworks", "ytf.wire", "ytf.log")
"""All that starters load of ytf."""
SOURCES = sorted(
    [
        *ROOT.glob("starter/*.py"),
        *ROOT.glob("frameworks/**/*.py"),
        *ROOT.glob("wire/*.py"),
        ROOT / "log.py",
    ]
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_3_8_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_imports_only_the_standard_library_and_what_starters_load(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or ""]
        else:
            continue
        for name in names:
            is_ours = name in OURS or name.startswith(tuple(f"{each}." for each in OURS))
            assert is_ours or name.partition(".")[0] in sys.stdlib_module_names, name


def test_no_costly_module_is_loaded() -> None:
    *argv, code = starter_command(sys.executable)
    code = code.replace(
        "sys.exit(main())",
        "from ytf.frameworks.api import by_name, names; [by_name(each) for each in names()]; "
        "print(*sys.modules)",
    )
    loaded = subprocess.run([*argv, code], capture_output=True, text=True, check=True).stdout
    assert "ytf.starter.starter" in loaded.split()
    assert COSTLY & set(loaded.split()) == set()


def test_it_stays_small_while_a_program_runs(
    master: FakeMaster, start: Callable[..., RunningStarter]
) -> None:
    starter = start("echo some output; sleep 1000")
    master.meet()
    master.expect("started", 0)
    master.wait_for(lambda: any("usage" in poll for poll in master.polls), "a sample was taken")
    seen = len(master.polls)
    master.wait_for(lambda: len(master.polls) > seen + 1, "a few polls")
    status = Path(f"/proc/{starter.pid}/status").read_text()
    resident_kb = next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
    assert resident_kb <= 14 * 1024


def test_the_command_survives_spaces_and_unicode(tmp_path: Path) -> None:
    parent = tmp_path / "spä ces 'and' \"quotes\" \\"
    parent.mkdir()
    (parent / "ytf").symlink_to(ROOT)
    argv = starter_command(sys.executable, str(parent))
    done = subprocess.run(argv, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert done.returncode == 6
    assert "cannot begin: YTF_STARTER is not set" in done.stderr


def test_nothing_beside_the_package_can_stand_in_for_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "ytf").symlink_to(ROOT)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    argv = starter_command(sys.executable, str(tmp_path))
    done = subprocess.run(
        argv,
        env={"PYTHONPATH": str(tmp_path), "YTF_STARTER": json.dumps({})},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, "cannot begin" in done.stderr) == (6, True)
