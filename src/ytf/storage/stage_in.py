"""Copies files into a task's working directory before its program starts (ADR 31).

``python -m ytf.storage.stage_in`` is a helper process of a starter
(``ytf.storage.helper_protocol``), in the working directory. The request:
``sources`` (a list of ``url``, ``to`` and ``shard``), ``index`` and ``tasks`` (this task's
index in its group, and the group's size), ``node``. Its messages: ``progress``, ``note``
and at the end ``done``, each with a text.

A file is written in :data:`STATE` and renamed when it is complete, so no half file
ever has its name. What is complete is recorded there: a helper that
follows one that was killed, or the task's next attempt in the same container,
continues where that one ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from ytf.errors import NotFoundError, SpecError, YtfError
from ytf.starter.config import CONTAINER_DIR
from ytf.storage.container_conf import helper_configuration
from ytf.storage.copy_pool import ContentError, Progress, copy_all, retry
from ytf.storage.disk_space import DiskFullError, DiskSpace
from ytf.storage.helper_protocol import StarterLink, run
from ytf.storage.open_url import open_url
from ytf.storage.stage_plan import StagedFile, StagePlan, merge, plan_source

STATE = f"{CONTAINER_DIR}/stage-in"
_FULL = (
    "let each task take a share of the files (shard), put fewer tasks on a node "
    "(placement spread or apart), or use nodes with larger disks"
)


def work(link: StarterLink) -> None:
    """Do what a starter asks for; raises ``YtfError`` or ``OSError`` with a text for users."""
    request = link.request
    plan = retry(
        lambda: make_plan(request["sources"], request["index"], request["tasks"]),
        lambda text: link.tell({"note": text}),
    )
    stage = StageInCopy(plan, request["node"], lambda kind, text: link.tell({kind: text}))
    link.tell({"done": stage.run()})


def make_plan(sources: list[dict[str, object]], index: int, tasks: int) -> StagePlan:
    """List all sources, and plan what this task copies."""
    conf = helper_configuration(os.environ)
    plans = []
    for each in sources:
        files, path = open_url(str(each["url"]), conf)
        to = each["to"]
        try:
            plans.append(
                plan_source(
                    files,
                    path,
                    None if to is None else str(to),
                    shard=(index, tasks) if each["shard"] else None,
                )
            )
        except (NotFoundError, FileNotFoundError) as exc:
            raise NotFoundError(
                f"there is no {each['url']} to stage in",
                hint="check the path, and that the task's user may see it",
            ) from exc
        except ValueError as exc:
            raise SpecError(f"{each['url']}: {exc}") from exc
    return merge(plans)


class StageInCopy:
    """The copy of one plan into the working directory."""

    def __init__(self, plan: StagePlan, node: str, tell: Callable[[str, str], None]) -> None:
        self._plan = plan
        self._node = node
        self._tell = tell
        self._root = os.path.realpath(".")
        self._made: set[str] = set()
        os.makedirs(STATE, exist_ok=True)
        self._complete = CompleteFiles(f"{STATE}/complete")
        self._space = DiskSpace(".", node)
        self._progress = Progress(len(plan.files), plan.size, lambda text: tell("progress", text))

    def run(self) -> str:
        """Copy what is missing; returns a summary. To be called once."""
        with contextlib.closing(self._complete):
            self._copy_missing()
        return self._progress.summary()

    def _copy_missing(self) -> None:
        missing = [each for each in self._plan.files if not self._is_there(each)]
        try:
            self._space.require(sum(each.size - _size(_part(each)) for each in missing))
            for folder in self._plan.directories:
                self._make_directory(folder)
            copy_all(
                missing,
                self._copy,
                describe=lambda each: each.files.uri(each.source),
                note=lambda text: self._tell("note", text),
            )
        except DiskFullError as exc:
            raise DiskFullError(f"{exc}: {_FULL}") from exc
        except OSError as exc:
            if isinstance(exc, YtfError) or exc.errno is None:
                raise
            raise OSError(f"cannot write to the working directory on {self._node}: {exc}") from exc

    def _is_there(self, file: StagedFile) -> bool:
        if not os.path.lexists(file.target):
            return False
        known = self._complete.get(file)
        if known is None and not self._complete.has_written(file.target):
            raise SpecError(
                f"{file.target} is in the working directory already, and "
                f"{file.files.uri(file.source)} would replace it",
                hint="stage it into another directory: SRC:DIR",
            )
        if known is None or not known.is_unchanged(file.target):
            return False
        self._progress.add(file.size, copied=False)
        self._progress.file_done()
        return True

    def _make_directory(self, path: str) -> None:
        if path in self._made:
            return
        real = os.path.realpath(path or ".")
        if real != self._root and not real.startswith(self._root + os.sep):
            # What is shipped with a job are links to files that the node shares among jobs.
            raise SpecError(
                f"{path} is a link to {real}, outside the working directory: nothing is written "
                "there; stage into another directory"
            )
        os.makedirs(real, exist_ok=True)
        self._made.add(path)

    def _copy(self, file: StagedFile, check: Callable[[], None]) -> None:
        part = _part(file)
        self._make_directory(os.path.dirname(file.target))
        with open(part, "ab") as out:
            size, crc = out.tell(), 0
            if size > file.size:
                out.truncate(0)
                size = 0
            if size:
                crc = _crc_of(part)
            self._progress.add(size, copied=False)
            try:
                if size < file.size:
                    for piece in file.files.read(file.source, size):
                        check()
                        out.write(piece)
                        crc = zlib.crc32(piece, crc)
                        size += len(piece)
                        self._space.wrote(len(piece))
                        self._progress.add(len(piece))
                if size != file.size:
                    out.truncate(0)
                    raise ContentError(
                        f"{file.files.uri(file.source)} had {file.size} bytes when it was listed, "
                        f"and {size} when it was read: somebody is writing it"
                    )
                out.flush()
                written = os.fstat(out.fileno())
            except BaseException:
                self._progress.undo(size)
                raise
        if written.st_size != size:
            raise ContentError(f"{part} has {written.st_size} bytes in place of {size}")
        self._complete.add(file, CompleteFile(size, written.st_mtime_ns, crc))
        os.replace(part, file.target)
        self._progress.file_done()


@dataclass(frozen=True, slots=True)
class CompleteFile:
    """A file as it was when its copy was complete."""

    size: int
    mtime_ns: int
    crc: int

    def is_unchanged(self, path: str) -> bool:
        """Whether a file is still the same; one of another time is compared by its checksum."""
        try:
            found = os.stat(path)
        except OSError:
            return False
        if found.st_size != self.size:
            return False
        return found.st_mtime_ns == self.mtime_ns or _crc_of(path) == self.crc


class CompleteFiles:
    """The record of complete files: a line of JSON for each. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._known: dict[tuple[str, str, int], CompleteFile] = {}
        self._lock = threading.Lock()
        with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
            for line in file:
                # The last line of a process that was killed may not be whole.
                with contextlib.suppress(ValueError):
                    target, source, mtime_ms, size, mtime_ns, crc = json.loads(line)
                    self._known[target, source, mtime_ms] = CompleteFile(size, mtime_ns, crc)
        self._targets = {target for target, _, _ in self._known}
        self._file = open(path, "a", encoding="ascii", buffering=1)  # noqa: SIM115 (stays open)
        self._file.write("\n")

    def get(self, file: StagedFile) -> CompleteFile | None:
        """Return the copy of this very version of a file, if one was completed."""
        return self._known.get(_identity(file))

    def has_written(self, target: str) -> bool:
        """Whether a copy of any version was completed under this name."""
        return target in self._targets

    def add(self, file: StagedFile, copy: CompleteFile) -> None:
        """Record that a copy is complete; before it gets its name."""
        with self._lock:
            self._targets.add(file.target)
            self._known[_identity(file)] = copy
            line = [*_identity(file), copy.size, copy.mtime_ns, copy.crc]
            self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _identity(file: StagedFile) -> tuple[str, str, int]:
    return file.target, file.files.uri(file.source), file.mtime_ms


def _part(file: StagedFile) -> str:
    """Return the path of a file while it is incomplete; it is of this version of it only."""
    name = "\0".join([*map(str, _identity(file)), str(file.size)])
    return f"{STATE}/{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _crc_of(path: str) -> int:
    crc = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return crc


if __name__ == "__main__":
    run(work)
