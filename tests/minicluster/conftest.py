from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FakeJava = Callable[[str], None]


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    """Put a shell script in place of Java, and an empty release in place of Hadoop's jars.

    The script's lines run for every program, with its words as ``$*``; one that
    they let pass formats at once or lives until it is killed.
    """
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("YTF_HADOOP_CACHE", str(tmp_path / "cache"))
    for part in ("jars", "native"):
        (tmp_path / "cache" / "3.4.3" / part).mkdir(parents=True)

    def write(lines: str) -> None:
        java = home / "bin" / "java"
        java.write_text(
            f'#!/bin/sh\n{lines}\ncase "$*" in *-format*) exit 0 ;; esac\nexec sleep 600\n'
        )
        java.chmod(0o755)

    write("")
    return write
