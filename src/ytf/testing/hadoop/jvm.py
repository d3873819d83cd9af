"""The command lines of Hadoop's programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ytf.testing.hadoop import sharing
from ytf.testing.hadoop.artifacts import Release
from ytf.testing.hadoop.layout import Layout
from ytf.testing.hadoop.processes import MARK

# Guice and cglib of the web applications, and Hadoop's own reflection.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
)
_QUICK = (
    "-XX:+UseSerialGC",
    # These programs live for minutes and are idle: the second compiler never pays off.
    "-XX:TieredStopAtLevel=1",
    # Else each leaves a file in /tmp when it is killed.
    "-XX:-UsePerfData",
)
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "JAVA_HOME")


@dataclass(frozen=True)
class Jvm:
    """How programs of one release are run for one cluster."""

    java: Path
    release: Release
    layout: Layout
    heap_mb: int
    class_lists: Path | None = None
    """Where programs note the classes they load, if that is wanted."""

    def command(self, conf: Path, main_class: str, *arguments: str) -> list[str]:
        """A program with the configuration in ``conf``."""
        return [
            str(self.java),
            f"-Xmx{self.heap_mb}m",
            *_QUICK,
            *self._sharing(),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.library.path={self.release.native}",
            f"-Djava.io.tmpdir={self.layout.data('tmp')}",
            f"-Dhadoop.log.dir={self.layout.logs}",
            f"-Dlog4j.configuration={(conf / 'log4j.properties').as_uri()}",
            "-classpath",
            self.release.classpath(conf),
            main_class,
            *arguments,
        ]

    def _sharing(self) -> list[str]:
        shared = sharing.archive(self.release, self.java)
        if shared.exists():
            return sharing.use(shared)
        if self.class_lists is None:
            return []
        # Java replaces %p by its pid: every program has a list of its own.
        return sharing.note_classes(self.class_lists / "%p.classes")

    def environ(self) -> dict[str, str]:
        """A daemon's variables: few, so that no setting of the user's changes what it is.

        ``HADOOP_CONF_DIR`` is what a NodeManager passes on to containers.
        """
        return _chosen(os.environ) | {
            "HADOOP_CONF_DIR": str(self.layout.client_conf),
            # Paths may have any characters, whatever the user's locale.
            "LC_ALL": "C.UTF-8",
            MARK: str(self.layout.root),
        }


def _chosen(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _PASSED if name in environ}
