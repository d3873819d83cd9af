"""Hadoop's jars and its native library, fetched with Maven once and kept.

Each release has a directory below ``YTF_HADOOP_CACHE`` (``$YTF_HOME/hadoop``
by default), made beside its place and renamed into it: whatever has its final
name is whole.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ytf.errors import SettingsError
from ytf.home import home
from ytf.testing.hadoop.java import find_java, find_maven

CACHE = "YTF_HADOOP_CACHE"
"""The variable that names the directory of all fetched releases."""

Progress = Callable[[str], None]

_ARTIFACTS = (
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-client",
    "hadoop-mapreduce-client-core",
    # The ResourceManager does not start without its TimelineCollectorManager.
    "hadoop-yarn-server-timelineservice",
)
# The only artifact on Maven Central that has libhadoop.so. Without it the
# NodeManager forks a chmod for every file that it unpacks.
_NATIVE = ("io.trino.hadoop", "hadoop-apache", "3.3.5-3")
_NATIVE_NAMES = {"x86_64": "Linux-amd64", "aarch64": "Linux-aarch64", "ppc64le": "Linux-ppc64le"}
_LIBRARY = "libhadoop.so"
_BUILDING = ".building-"
_LAST_LINES = 8


@dataclass(frozen=True)
class Release:
    """One release of Hadoop on this disk."""

    version: str
    directory: Path

    @property
    def jars(self) -> Path:
        """The directory of its jars and everything they need."""
        return self.directory / "jars"

    @property
    def native(self) -> Path:
        """The directory of ``libhadoop.so``; empty where there is none for this machine."""
        return self.directory / "native"

    def jar_path(self) -> str:
        """A class path of all jars; Java itself finds them, in the order of the directory."""
        return f"{self.jars}/*"

    def classpath(self, conf: Path) -> str:
        """What a program needs to run with the configuration ``conf``.

        The jars have no configuration in them, so it may come last; class
        data sharing wants the unchanging part first.
        """
        return f"{self.jar_path()}:{conf}"


def cache() -> Path:
    """Where releases are kept: ``YTF_HADOOP_CACHE``, else ``$YTF_HOME/hadoop``."""
    given = os.environ.get(CACHE)
    return Path(given).absolute() if given else home() / "hadoop"


def fetch(version: str, progress: Progress) -> Release:
    """The release, fetched if it is not there; ``progress`` is told of what takes long.

    Several may call it at once: one fetches, the others wait. Raises
    ``SettingsError`` if Java or Maven is missing, or the network is.
    """
    find_java(version)
    release = Release(version, cache() / version)
    if release.directory.is_dir():
        return release
    release.directory.parent.mkdir(parents=True, exist_ok=True)
    with alone(progress):
        if not release.directory.is_dir():
            started = time.monotonic()
            progress(f"fetching Hadoop {version} with Maven, once (about 100 MB) ...")
            _make(release)
            progress(f"fetched Hadoop {version} in {time.monotonic() - started:.0f} s")
    return release


@contextmanager
def alone(progress: Progress) -> Iterator[None]:
    """Hold the lock of all releases; it goes with the process, however that ends."""
    with (cache() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another command that prepares Hadoop")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(release: Release) -> None:
    """Fetch a release to its place, or raise and leave nothing there. Needs the lock."""
    mvn = find_maven()
    for left in release.directory.parent.glob(f"{_BUILDING}*"):
        # Of a command that was killed: nobody else fetches while we have the lock.
        shutil.rmtree(left)
    building = release.directory.parent / f"{_BUILDING}{release.version}"
    building.mkdir()
    try:
        (building / "pom.xml").write_text(pom(release.version))
        _run_maven(mvn, building, release.version)
        _take_native_library(Release(release.version, building))
        building.rename(release.directory)
    finally:
        if building.exists():
            shutil.rmtree(building)


def pom(version: str) -> str:
    """A Maven project that needs Hadoop's daemons and nothing else."""
    dependencies = [_dependency("org.apache.hadoop", name, version) for name in _ARTIFACTS]
    # The native library's jar is fat: what it depends on is not for us.
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    dependencies.append(_dependency(*_NATIVE, f"<exclusions>{everything}</exclusions>"))
    return "\n".join(
        [
            '<project xmlns="http://maven.apache.org/POM/4.0.0">',
            "  <modelVersion>4.0.0</modelVersion>",
            "  <groupId>ytf</groupId><artifactId>hadoop</artifactId><version>1</version>",
            "  <packaging>pom</packaging>",
            "  <dependencies>",
            *dependencies,
            "  </dependencies>",
            "</project>\n",
        ]
    )


def _dependency(group: str, name: str, version: str, more: str = "") -> str:
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def _run_maven(mvn: Path, project: Path, version: str) -> None:
    step = [
        str(mvn),
        "--batch-mode",
        "--quiet",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={project / 'jars'}",
    ]
    done = subprocess.run(
        step, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    # Maven says it all on stdout, and the cause first: its last lines are advice.
    said = [line for line in done.stdout.splitlines() if "ERROR" in line]
    said = said or (done.stdout + done.stderr).splitlines() or ["no message"]
    raise SettingsError(
        f"cannot fetch Hadoop {version}: mvn exited with {done.returncode}:\n"
        + "\n".join(line[:500] for line in said[:_LAST_LINES]),
        hint="the first time it needs the network; check the release's number, and the proxy or "
        "mirror in ~/.m2/settings.xml",
    )


def _take_native_library(release: Release) -> None:
    """Take ``libhadoop.so`` out of the jar that has it, which goes: it has old classes, too."""
    release.native.mkdir()
    _, name, version = _NATIVE
    jar = release.jars / f"{name}-{version}.jar"
    machine = _NATIVE_NAMES.get(platform.machine())
    if machine is not None:
        with zipfile.ZipFile(jar) as archive:
            library = archive.read(f"nativelib/{machine}/{_LIBRARY}")
        (release.native / _LIBRARY).write_bytes(library)
    jar.unlink()
