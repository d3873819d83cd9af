from __future__ import annotations

from pathlib import Path

from ytf.backends.local.directories import JobDirectories


def test_the_home_follows_the_variable(tmp_path: Path) -> None:
    assert JobDirectories.from_environ({"YTF_HOME": str(tmp_path / "ö")}).root == tmp_path / "ö"
    assert JobDirectories.from_environ({"YTF_HOME": "relative"}).root == Path.cwd() / "relative"
    assert JobDirectories.from_environ({}).root == Path.home() / ".ytf"
