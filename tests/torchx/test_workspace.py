from __future__ import annotations

import os
from pathlib import Path

import pytest

from ytf.errors import SpecError
from ytf.torchx.workspace import copy_workspace, workspace_directory


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def test_source_is_copied_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "a workspace"
    write(source, "train.py", "run.sh", "package/part.py", ".env/x")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("package")
    (source / "loop").symlink_to(".")
    copy_workspace(source, tmp_path / "copy")
    assert files_below(tmp_path / "copy") == {"train.py", "run.sh", "package/part.py", ".env/x"}
    assert os.access(tmp_path / "copy" / "run.sh", os.X_OK)
    assert (tmp_path / "copy" / "link").readlink() == Path("package")


def test_what_is_not_source_is_left_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(
        source, "train.py", ".git/HEAD", "a/__pycache__/x.pyc", "env/pyvenv.cfg", "env/bin/python"
    )
    os.mkfifo(source / "pipe")
    copy_workspace(source, tmp_path / "copy")
    assert files_below(tmp_path / "copy") == {"train.py"}


def test_the_last_pattern_that_fits_decides(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, "train.py", "data/a.csv", "data/b.csv", "logs/1", "logs/keep", "deep/logs/1")
    (source / ".torchxignore").write_text("# what\n*.csv\n!data/b.csv\nlogs/ # all\n\n.\n")
    copy_workspace(source, tmp_path / "copy")
    assert files_below(tmp_path / "copy") == {
        ".torchxignore",
        "train.py",
        "data/b.csv",
        "deep/logs/1",
    }


def test_a_workspace_is_a_directory_here(tmp_path: Path) -> None:
    odd = tmp_path / "spaces and ünicode"
    odd.mkdir()
    assert workspace_directory(str(odd)) == odd
    assert workspace_directory(f"file://{odd}") == odd
    for wrong in (f"file://{odd}/none", "s3://bucket/path", "memory://x"):
        with pytest.raises(SpecError, match="is no directory of this machine"):
            workspace_directory(wrong)
