"""The Java command lines of Hadoop's programs, with class data sharing (CDS).

A third of the cost of a start is the loading of some ten thousand classes. The
first start that is asked to do so logs which classes are loaded. An archive of
them is then made beside the jars, and every later JVM of this Java and release
maps it. CDS is an optimisation only: Java ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ytf.errors import SettingsError
from ytf.minicluster.directory import ClusterDirectory
from ytf.minicluster.processes import CLUSTER_VARIABLE
from ytf.minicluster.releases import Release

# Guice and cglib of the web applications, and Hadoop's own reflection.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
)
_QUICK = (
    "-XX:+UseSerialGC",
    # These programs run for minutes and are idle: the second compiler never pays off.
    "-XX:TieredStopAtLevel=1",
    # Without it each leaves a file in /tmp when it is killed.
    "-XX:-UsePerfData",
)
_PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "JAVA_HOME")
_LOADED = re.compile(r"(?:\[[^\]]*\])+ (\S+) source: (?:jrt:|file:|shared objects)")
# Classes that are generated at run time: there is no file to load them from.
_GENERATED = re.compile(r"/0x|\$\$|\$Proxy|\.Generated")


@dataclass(frozen=True)
class Jvm:
    """How programs of one Hadoop release are run for one cluster."""

    java: Path
    release: Release
    directory: ClusterDirectory
    heap_mb: int
    class_lists: Path | None = None
    """The directory in which programs log the classes they load; None: they do not."""

    def command(self, conf: Path, main_class: str, *arguments: str) -> list[str]:
        """The command line of a program with the configuration in ``conf``."""
        return [
            str(self.java),
            f"-Xmx{self.heap_mb}m",
            *_QUICK,
            *self._cds_options(),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.library.path={self.release.native}",
            f"-Djava.io.tmpdir={self.directory.data('tmp')}",
            f"-Dhadoop.log.dir={self.directory.logs}",
            f"-Dlog4j.configuration={(conf / 'log4j.properties').as_uri()}",
            "-classpath",
            self.release.classpath(conf),
            main_class,
            *arguments,
        ]

    def _cds_options(self) -> list[str]:
        archive = cds_archive(self.release, self.java)
        if archive.exists():
            # Java writes nothing to stdout if the archive does not fit.
            return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"]
        if self.class_lists is None:
            return []
        # Java replaces %p by its pid, so every program has a log of its own. With
        # filesize=0 it is not rotated: rotation would lose half of it.
        return [f"-Xlog:class+load:file={self.class_lists / '%p.classes'}::filesize=0"]

    def environ(self) -> dict[str, str]:
        """The variables of a daemon: few, so that the user's settings do not change it.

        A NodeManager passes ``HADOOP_CONF_DIR`` on to containers.
        """
        return _passed(os.environ) | {
            "HADOOP_CONF_DIR": str(self.directory.client_conf),
            # Paths may contain any character, whatever the user's locale is.
            "LC_ALL": "C.UTF-8",
            CLUSTER_VARIABLE: str(self.directory.root),
        }


def _passed(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _PASSED_VARIABLES if name in environ}


def cds_archive(release: Release, java: Path) -> Path:
    """The path of the CDS archive for one Java, whether it exists or not."""
    # A Java that is replaced by an update has another modification time.
    resolved = java.resolve()
    identity = f"{resolved} {resolved.stat().st_mtime_ns}"
    return release.directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def class_names(logs: Iterable[Path]) -> list[str]:
    """Every class in the JVMs' logs that can be archived, once, in the order of loading."""
    names: dict[str, None] = {}
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            found = _LOADED.match(line)
            if found and not _GENERATED.search(found[1]):
                names[found[1].replace(".", "/")] = None
    return list(names)


def make_cds_archive(release: Release, java: Path, logs: Iterable[Path]) -> None:
    """Make the CDS archive of the classes in the JVMs' logs, atomically.

    Takes half a minute. The caller holds :func:`releases.cache_lock`. Raises
    ``SettingsError`` if Java cannot make it.
    """
    place = cds_archive(release, java)
    new = place.with_suffix(".new")
    class_list = place.with_suffix(".list")
    class_list.write_text("\n".join(class_names(logs)) + "\n")
    try:
        done = subprocess.run(
            [
                str(java),
                "-Xshare:dump",
                "-XX:+UseSerialGC",
                f"-XX:SharedClassListFile={class_list}",
                f"-XX:SharedArchiveFile={new}",
                "-classpath",
                release.jar_path(),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            output = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
            raise SettingsError(f"{java} cannot make an archive of classes: {output[-1]}")
        new.replace(place)
    finally:
        class_list.unlink()
        new.unlink(missing_ok=True)
