"""Finds the Java and the Maven of this machine, and checks Java's version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ytf.errors import SettingsError

_OLDEST = 11
_OLDEST_FOR = {"3.5": 17}
# Java 24 removed Subject.getSubject, which Hadoop's UserGroupInformation calls.
_NEWEST = 23
_INSTALL_JAVA = (
    "install Java 17 (Debian: apt-get install openjdk-17-jre-headless), or name one with JAVA_HOME"
)


def find_java(hadoop: str) -> Path:
    """The path of a Java that can run this Hadoop: from ``JAVA_HOME``, else from ``PATH``.

    Raises ``SettingsError`` if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise SettingsError(f"there is no java {where}: Hadoop needs one", hint=_INSTALL_JAVA)
    version = java_version(Path(found))
    oldest = _OLDEST_FOR.get(hadoop.rpartition(".")[0], _OLDEST)
    if not oldest <= version <= _NEWEST:
        raise SettingsError(
            f"{found} is Java {version}: Hadoop {hadoop} runs here on Java {oldest} to {_NEWEST}",
            hint=_INSTALL_JAVA,
        )
    return Path(found)


def java_version(java: Path) -> int:
    """The feature version of a Java: 8, 11, 17 …"""
    # Reading the file costs nothing. Starting the JVM costs a tenth of a second.
    release = java.resolve().parent.parent / "release"
    text = release.read_text() if release.is_file() else _version_output(java)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    if match is None:
        raise SettingsError(f"cannot tell the version of {java}", hint=_INSTALL_JAVA)
    return int(match[1])


def _version_output(java: Path) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


def find_maven() -> Path:
    """The path of ``mvn``, from ``PATH``; raises ``SettingsError`` if there is none."""
    found = shutil.which("mvn")
    if found is None:
        raise SettingsError(
            "there is no mvn on the PATH: Hadoop's jars are fetched with Maven",
            hint="install it (Debian: apt-get install maven), or name a directory that has the "
            "jars already with YTF_HADOOP_CACHE",
        )
    return Path(found)
