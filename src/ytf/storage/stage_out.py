"""Copies what a task's program has written to where it is to stay, after its end (ADR 31).

``python -m ytf.storage.stage_out`` is a helper process of a starter
(``ytf.storage.helper_protocol``), in the working directory. The request: ``outputs``
(a list of ``dir`` and ``url``), ``job``, ``task``, ``node``, and ``check``: true before the
program starts, to find out early that a destination cannot be used. Its messages are those
of ``ytf.storage.stage_in``.

Everything is written to a directory beside the destination, read back, and
renamed in the end: the destination appears whole. It has to be new or empty, or
of an earlier attempt of the same task, as :data:`MANIFEST` in it tells. So
nothing that somebody else wrote is ever replaced.
"""

from __future__ import annotations

import json
import os
import posixpath
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ytf.errors import RefusedError
from ytf.storage.container_conf import helper_configuration
from ytf.storage.copy_pool import ContentError, Progress, copy_all, retry
from ytf.storage.files import Files, FileStatus
from ytf.storage.helper_protocol import StarterLink, run
from ytf.storage.open_url import open_url
from ytf.wire.untrusted import read_json

MANIFEST = ".ytf-stage-out.json"
"""The file in a destination that tells who wrote it, and the size and checksum of each file."""
_LARGEST_MANIFEST = 64 << 20
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644
_CHUNK = 1 << 20


class DestinationError(RefusedError, OSError):
    """A destination has files that this task has not written."""


def work(link: StarterLink) -> None:
    """Do what a starter asks for; raises ``YtfError`` or ``OSError`` with a text for users."""
    request = link.request
    conf = helper_configuration(os.environ)
    for each in request["outputs"]:
        files, path = open_url(each["url"], conf)
        destination = Destination(files, path, request["job"], request["task"])
        if request["check"]:
            retry(destination.check, lambda text: link.tell({"note": text}))
            continue
        stage = StageOutCopy(each["dir"], destination, lambda kind, text: link.tell({kind: text}))
        link.tell({"done": f"{each['dir']} to {files.uri(path)}: {stage.run()}"})


class Destination:
    """A directory that one task of a job writes, all at once."""

    def __init__(self, files: Files, path: str, job: str, task: str) -> None:
        self.files = files
        self.path = "/" + path.strip("/")
        self.uri = files.uri(self.path)
        self._job = job
        self._task = task
        parent, name = posixpath.split(self.path)
        group, _, index = task.rpartition(":")
        self.scratch = posixpath.join(parent, f".{name}.{job}.{group}-{index}.ytf")
        """Where everything is written first: the same for all attempts of the task."""

    def check(self) -> None:
        """Raise unless this task may write here: ``DestinationError``, or what HDFS says."""
        if self._is_foreign():
            raise DestinationError(
                f"{self.uri} has files already, and stage-out replaces none: name another "
                "directory, for example with {job} in it, or remove them"
            )
        if not self._exists(self.scratch):
            self.files.mkdir(self.scratch, _DIRECTORY_MODE)
            self.files.delete(self.scratch)

    def publish(self, entries: dict[str, tuple[int, int]]) -> None:
        """Give what is in ``scratch`` its name; ``entries`` are the size and checksum of each."""
        if not self._exists(self.scratch):
            if self._is_there():
                return  # done by a call before, whose answer was lost
            raise DestinationError(
                f"somebody has removed {self.files.uri(self.scratch)}, in which stage-out had "
                "prepared its output: name a destination in a directory that only you may write"
            )
        manifest = {"job": self._job, "task": self._task, "files": entries}
        path = posixpath.join(self.scratch, MANIFEST)
        self.files.delete(path)
        written = self.files.write(path, [json.dumps(manifest, indent=1).encode()], _FILE_MODE)
        if self.files.stat(self.scratch).owner != written.owner:
            # Where others may write, they could have made it before us, and would own the output.
            raise DestinationError(
                f"{self.files.uri(self.scratch)}, in which stage-out prepares its output, belongs "
                "to somebody else: name a destination in a directory that only you may write"
            )
        if self._is_foreign():
            raise DestinationError(
                f"{self.uri} was written by somebody else meanwhile, and stage-out replaces "
                f"nothing: what the task has written is in {self.files.uri(self.scratch)}"
            )
        old = f"{self.scratch}.old"
        self.files.delete(old)
        if self._exists(self.path):
            self._rename(self.path, old)
        self._rename(self.scratch, self.path)
        self.files.delete(old)

    def _is_there(self) -> bool:
        """Whether this task has published its output."""
        try:
            return self._is_own(self.files.list(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _is_foreign(self) -> bool:
        try:
            found = self.files.list(self.path)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            return True
        return bool(found) and not self._is_own(found)

    def _is_own(self, found: list[FileStatus]) -> bool:
        manifest = next((each for each in found if each.name == MANIFEST), None)
        if manifest is None or manifest.size > _LARGEST_MANIFEST:
            return False
        try:
            told: Any = read_json(b"".join(self.files.read(manifest.path)))
            return (told["job"], told["task"]) == (self._job, self._task)
        except (ValueError, KeyError, TypeError):
            return False

    def _exists(self, path: str) -> bool:
        try:
            self.files.stat(path)
        except FileNotFoundError:
            return False
        return True

    def _rename(self, source: str, target: str) -> None:
        try:
            self.files.rename(source, target)
        except OSError:
            # The answer to a rename that was done may be lost.
            if self._exists(source):
                raise


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that the program has left: its path, and its name in the destination."""

    path: str
    name: str
    size: int


class StageOutCopy:
    """The copy of one directory, or of one file, to its destination."""

    def __init__(
        self, folder: str, destination: Destination, tell: Callable[[str, str], None]
    ) -> None:
        self._folder = folder
        self._destination = destination
        self._files = destination.files
        self._tell = tell
        self._there: dict[str, int] = {}
        self._entries: dict[str, tuple[int, int]] = {}

    def run(self) -> str:
        """Copy everything, compare it, and make it appear; returns a summary."""
        if not os.path.lexists(self._folder):
            raise FileNotFoundError(
                f"the program has left no {self._folder} in its working directory: "
                "there is nothing to stage out"
            )

        def note(text: str) -> None:
            self._tell("note", text)

        found: list[LocalFile] = []
        folders = [""]
        for each in _walk(self._folder, note):
            if isinstance(each, str):
                folders.append(each)
            else:
                found.append(each)
        scratch = self._destination.scratch

        def make_directories() -> None:
            for folder in folders:
                self._files.mkdir(posixpath.join(scratch, folder).rstrip("/"), _DIRECTORY_MODE)

        retry(make_directories, note)
        there = retry(lambda: list(_tree(self._files, scratch)), note)
        self._there = {each.path: each.size for each in there}
        size = sum(each.size for each in found)
        self._progress = Progress(len(found), size, lambda text: self._tell("progress", text))
        copy_all(found, self._copy, describe=lambda each: each.path, note=note)
        # What an attempt before this one has left, and this one has not written.
        written = {posixpath.join(scratch, each.name) for each in found}

        def remove_others() -> None:
            for path in self._there.keys() - written:
                self._files.delete(path)

        retry(remove_others, note)
        retry(lambda: self._destination.publish(self._entries), note)
        return self._progress.summary()

    def _copy(self, file: LocalFile, check: Callable[[], None]) -> None:
        target = posixpath.join(self._destination.scratch, file.name)
        if self._there.get(target) == file.size:
            crc = _crc(_pieces(file.path))
            if _crc(self._files.read(target)) == crc:
                self._progress.add(file.size, copied=False)
                self._done(file, crc)
                return
        self._files.delete(target)
        crc = count = 0

        def pieces() -> Iterator[bytes]:
            nonlocal crc, count
            for piece in _pieces(file.path):
                check()
                crc = zlib.crc32(piece, crc)
                count += len(piece)
                yield piece
                self._progress.add(len(piece))

        try:
            written = self._files.write(target, pieces(), _FILE_MODE)
            read_back = _crc(self._files.read(target))
            if (written.size, read_back) != (count, crc):
                raise ContentError(
                    f"{self._files.uri(target)} differs from {file.path}: "
                    f"{written.size} of {count} bytes, checksum {read_back:08x}, not {crc:08x}"
                )
        except BaseException:
            self._progress.undo(count)
            raise
        self._done(LocalFile(file.path, file.name, count), crc)

    def _done(self, file: LocalFile, crc: int) -> None:
        self._entries[file.name] = (file.size, crc)
        self._progress.file_done()


def _walk(path: str, note: Callable[[str], None], name: str = "") -> Iterator[LocalFile | str]:
    """Yield the files of a tree, and the names of its directories before what is in them.

    A link to a file is that file. A link to a directory is left out, and so is
    what is neither a file nor a directory.
    """
    found = os.stat(path)
    if stat.S_ISREG(found.st_mode):
        yield LocalFile(path, name or os.path.basename(path), found.st_size)
        return
    if not stat.S_ISDIR(found.st_mode):
        note(f"{path} is no file and no directory: it is left out")
        return
    if name:
        yield name
    with os.scandir(path) as entries:
        inside = sorted(entries, key=lambda entry: entry.name)
    for entry in inside:
        if not os.path.exists(entry.path) or (entry.is_symlink() and entry.is_dir()):
            note(f"{entry.path} is a link to a directory, or to nothing: it is left out")
            continue
        yield from _walk(entry.path, note, posixpath.join(name, entry.name))


def _tree(files: Files, path: str) -> Iterator[FileStatus]:
    for each in files.list(path):
        if each.is_directory:
            yield from _tree(files, each.path)
        else:
            yield each


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _crc(pieces: Iterator[bytes]) -> int:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return crc


if __name__ == "__main__":
    run(work)
