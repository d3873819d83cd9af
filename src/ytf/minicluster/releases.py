"""Fetches Hadoop releases (jars and the native library) with Maven, once, and keeps them.

Each release has a directory below ``YTF_HADOOP_CACHE`` (``$YTF_HOME/hadoop``
by default). It is built under another name and then renamed: a directory that
has its final name is complete. Maven compares each file with the checksum in its
repository; if one differs or there is none, nothing is kept.
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
from ytf.home import home_directory, make_private_directory
from ytf.minicluster.java import find_java, find_maven

CACHE = "YTF_HADOOP_CACHE"
"""The variable with the directory of all fetched releases."""

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
# The only artifact on Maven Central that contains libhadoop.so. Without that library
# the NodeManager forks a chmod for every file that it unpacks.
_NATIVE = ("io.trino.hadoop", "hadoop-apache", "3.3.5-3")
_NATIVE_NAMES = {"x86_64": "Linux-amd64", "aarch64": "Linux-aarch64", "ppc64le": "Linux-ppc64le"}
_LIBRARY = "libhadoop.so"
_BUILDING = ".building-"
_LAST_LINES = 8
_NETWORK_HINT = (
    "the first time it needs the network; check the release's number, and the proxy or "
    "mirror in ~/.m2/settings.xml"
)
_CHECKSUM_HINT = (
    "a file was damaged or replaced on its way, and nothing was kept: try again; if it happens "
    "again, use another mirror than the one in ~/.m2/settings.xml"
)


@dataclass(frozen=True)
class Release:
    """A Hadoop release on this disk."""

    version: str
    directory: Path

    @property
    def jars(self) -> Path:
        """The directory of its jars and their dependencies."""
        return self.directory / "jars"

    @property
    def native(self) -> Path:
        """The directory of ``libhadoop.so``; empty if there is none for this architecture."""
        return self.directory / "native"

    def jar_path(self) -> str:
        """The class path of all jars. Java expands it, in the order of the directory."""
        return f"{self.jars}/*"

    def classpath(self, conf: Path) -> str:
        """The class path of a program with the configuration in ``conf``.

        The jars contain no configuration, so it may come last. Class data
        sharing needs the unchanging part first.
        """
        return f"{self.jar_path()}:{conf}"


def cache() -> Path:
    """The directory of all releases: ``YTF_HADOOP_CACHE``, else ``$YTF_HOME/hadoop``."""
    given = os.environ.get(CACHE)
    return Path(given).absolute() if given else home_directory("hadoop")


def fetch(version: str, on_progress: Progress) -> Release:
    """The release of a version, fetched if it is not there.

    ``on_progress`` gets a message before each step that takes long. Several
    processes may call this at once: one fetches, the others wait. Raises
    ``SettingsError`` if Java, Maven or the network is missing.
    """
    find_java(version)
    release = Release(version, cache() / version)
    if release.directory.is_dir():
        return release
    make_private_directory(release.directory.parent, is_checked=not os.environ.get(CACHE))
    with cache_lock(on_progress):
        if not release.directory.is_dir():
            started = time.monotonic()
            on_progress(f"fetching Hadoop {version} with Maven, once (about 100 MB) ...")
            _make(release)
            on_progress(f"fetched Hadoop {version} in {time.monotonic() - started:.0f} s")
    return release


@contextmanager
def cache_lock(on_progress: Progress) -> Iterator[None]:
    """Hold the lock of the release cache. The system frees it when the process ends."""
    with (cache() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress("waiting for another command that prepares Hadoop")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(release: Release) -> None:
    """Fetch a release into its directory, or raise and leave nothing. Needs the lock."""
    mvn = find_maven()
    for left in release.directory.parent.glob(f"{_BUILDING}*"):
        # From a command that was killed: no other process fetches while we have the lock.
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
    # The jar with the native library is a fat one. We do not need its dependencies.
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
    """Copy the jars of a project into its ``jars``; raises ``SettingsError`` if that fails."""
    step = [
        str(mvn),
        "--batch-mode",
        "--quiet",
        # Otherwise Maven only warns, and --quiet hides warnings.
        "--strict-checksums",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={project / 'jars'}",
    ]
    done = subprocess.run(
        step, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    # Maven writes errors to stdout, the cause first. Its last lines are advice.
    lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
    lines = lines or (done.stdout + done.stderr).splitlines() or ["no message"]
    raise SettingsError(
        f"cannot fetch Hadoop {version}: mvn exited with {done.returncode}:\n"
        + "\n".join(line[:500] for line in lines[:_LAST_LINES]),
        hint=_CHECKSUM_HINT if "Checksum validation failed" in done.stdout else _NETWORK_HINT,
    )


def _take_native_library(release: Release) -> None:
    """Extract ``libhadoop.so`` from its jar. Remove the jar: it also contains old classes."""
    release.native.mkdir()
    _, name, version = _NATIVE
    jar = release.jars / f"{name}-{version}.jar"
    machine = _NATIVE_NAMES.get(platform.machine())
    if machine is not None:
        with zipfile.ZipFile(jar) as archive:
            library = archive.read(f"nativelib/{machine}/{_LIBRARY}")
        (release.native / _LIBRARY).write_bytes(library)
    jar.unlink()
