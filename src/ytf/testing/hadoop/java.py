"""The Java and the Maven of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ytf.errors import SettingsError

_OLDEST = 11
_OLDEST_FOR = {"3.5": 17}
# From 24 on there is no Subject.getSubject for Hadoop's UserGroupInformation.
_NEWEST = 23
_INSTALL_JAVA = (
    "install Java 17 (Debian: apt-get install openjdk-17-jre-headless), or name one with JAVA_HOME"
)


def find_java(hadoop: str) -> Path:
    """A Java that can run this Hadoop: of ``JAVA_HOME``, else of the ``PATH``.

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
    """The feature number of a Java: 8, 11, 17 …"""
    # The file beside it costs nothing; asking the JVM itself a tenth of a second.
    release = java.resolve().parent.parent / "release"
    said = release.read_text() if release.is_file() else _ask(java)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', said)
    if match is None:
        raise SettingsError(f"cannot tell the version of {java}", hint=_INSTALL_JAVA)
    return int(match[1])


def _ask(java: Path) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout


def find_maven() -> Path:
    """The ``mvn`` of the ``PATH``; raises ``SettingsError`` if there is none."""
    found = shutil.which("mvn")
    if found is None:
        raise SettingsError(
            "there is no mvn on the PATH: Hadoop's jars are fetched with Maven",
            hint="install it (Debian: apt-get install maven), or name a directory that has the "
            "jars already with YTF_HADOOP_CACHE",
        )
    return Path(found)
