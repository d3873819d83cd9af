"""From a name to a backend."""

import subprocess
import sys
from pathlib import Path

import pytest

import ytf
from ytf.backends import backend
from ytf.errors import RefusedError, SettingsError


def test_local_is_there() -> None:
    assert backend("local").name == "local"


def test_yarn_says_it_is_not_there_yet() -> None:
    with pytest.raises(RefusedError, match="not in this version yet"):
        backend("yarn")


def test_a_near_miss_gets_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="no backend 'locl'") as caught:
        backend("locl")
    assert caught.value.hint == "did you mean 'local'?"


def test_another_name_gets_the_list() -> None:
    with pytest.raises(SettingsError) as caught:
        backend("slurm")
    assert caught.value.hint == "use one of: local, yarn"


def test_the_node_loads_nothing_heavy() -> None:
    packages = Path(ytf.__file__).parents[1]
    heavy = ("msgspec", "asyncio", "subprocess", "pathlib", "shutil", "logging", "dataclasses")
    code = (
        f"import sys; sys.path.append({str(packages)!r}); import ytf.backends.local.node;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
