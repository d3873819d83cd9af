"""Class data sharing: what Java once knows of Hadoop's classes, it need not learn again.

A third of what a start costs is the loading of some ten thousand classes. The
first start that is asked to notes which; an archive is made of them, beside
the jars, and every later JVM of this Java and release maps it. It is an
optimisation only: Java itself ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ytf.errors import SettingsError
from ytf.testing.hadoop.artifacts import Release

_LOADED = re.compile(r"(?:\[[^\]]*\])+ (\S+) source: (?:jrt:|file:|shared objects)")
# Made while running: they have no file to be found in again.
_MADE_UP = re.compile(r"/0x|\$\$|\$Proxy|\.Generated")


def archive(release: Release, java: Path) -> Path:
    """Where the archive for one Java is, or will be."""
    # A Java that is replaced by an update has another modification time.
    resolved = java.resolve()
    identity = f"{resolved} {resolved.stat().st_mtime_ns}"
    return release.directory / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def use(archive: Path) -> list[str]:
    """The options with which a JVM maps it, and says nothing on stdout if it does not fit."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"]


def note_classes(list_: Path) -> list[str]:
    """The option with which a JVM notes what it loads."""
    # Else the file is rotated, and the half of it is lost.
    return [f"-Xlog:class+load:file={list_}::filesize=0"]


def class_names(logs: Iterable[Path]) -> list[str]:
    """Every class that can be archived, each once, in the order in which they were loaded."""
    names: dict[str, None] = {}
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            found = _LOADED.match(line)
            if found and not _MADE_UP.search(found[1]):
                names[found[1].replace(".", "/")] = None
    return list(names)


def make_archive(release: Release, java: Path, logs: Iterable[Path]) -> None:
    """Make the archive of what the JVMs noted; whole or not at all.

    Takes half a minute. Needs the lock of the releases. Raises
    ``SettingsError`` if Java cannot do it.
    """
    place = archive(release, java)
    new = place.with_suffix(".new")
    list_ = place.with_suffix(".list")
    list_.write_text("\n".join(class_names(logs)) + "\n")
    try:
        done = subprocess.run(
            [
                str(java),
                "-Xshare:dump",
                "-XX:+UseSerialGC",
                f"-XX:SharedClassListFile={list_}",
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
            said = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
            raise SettingsError(f"{java} cannot make an archive of classes: {said[-1]}")
        new.replace(place)
    finally:
        list_.unlink()
        new.unlink(missing_ok=True)
