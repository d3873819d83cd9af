"""What the tests of checkpoint sync share: a program that writes, processes that die."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.storage.memory_files import DiedError, Disk, MemoryFiles
from ytf.storage.checkpoint_sync.engine import SyncEngine
from ytf.storage.checkpoint_sync.local_directory import LocalDirectory
from ytf.storage.checkpoint_sync.store import CheckpointStore, Writer
from ytf.storage.files import ReplacingFiles

Contents = dict[str, bytes]

ROOT = "/user/me/run10"
INTERVAL_S = 10


class Clock:
    """Time as the tests let it pass."""

    def __init__(self) -> None:
        self.now_ns = 10**18

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Program:
    """A program that writes to a directory. Each write takes a moment of its clock."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory = directory
        self._clock = clock

    def write(self, name: str, data: bytes) -> None:
        """Write under a temporary name, and rename."""
        path = self._path(name)
        temporary = path.with_name(f"{path.name}.temporary")
        temporary.write_bytes(data)
        self._stamp(temporary)
        temporary.rename(path)

    def overwrite(self, name: str, data: bytes) -> None:
        """Write to the file itself."""
        path = self._path(name)
        path.write_bytes(data)
        self._stamp(path)

    def append(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with path.open("ab") as file:
            file.write(data)
        self._stamp(path)

    def remove(self, name: str) -> None:
        (self.directory / name).unlink(missing_ok=True)

    def save(self, number: int, keep: int = 1) -> None:
        """Save a checkpoint as TensorFlow does, and remove older ones."""
        self.write(f"ckpt-{number}.data", b"data %d" % number)
        self.write(f"ckpt-{number}.index", b"index %d" % number)
        self.write("checkpoint", b"ckpt-%d" % number)
        for path in self.directory.glob("ckpt-*"):
            if int(path.stem.partition("-")[2]) <= number - keep:
                path.unlink()

    def contents(self) -> Contents:
        return contents_of(self.directory)

    def _path(self, name: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _stamp(self, path: Path) -> None:
        self._clock.pass_s(0.5)
        os.utime(path, ns=(self._clock.now_ns, self._clock.now_ns))


class Attempt:
    """One attempt at a task: a container with a program, and the engine beside it."""

    def __init__(
        self,
        directory: Path,
        disk: Disk | ReplacingFiles,
        clock: Clock,
        number: int = 1,
        *,
        job: str = "job_1",
    ) -> None:
        self.files = MemoryFiles(disk) if isinstance(disk, Disk) else None
        files: ReplacingFiles = self.files if isinstance(disk, Disk) else disk  # type: ignore[assignment]
        self.clock = clock
        self.program = Program(directory, clock)
        self.told: list[str] = []
        nonce = os.urandom(8).hex()
        writer = Writer(job=job, task="worker:0", attempt=number, host="node", nonce=nonce)
        self.engine = SyncEngine(
            LocalDirectory(directory),
            lambda: CheckpointStore(files, ROOT, writer),
            INTERVAL_S,
            self.told.append,
            clock,
        )

    def begin(self) -> Contents:
        """Claim and restore; returns what the program finds then."""
        self.engine.claim()
        self.engine.restore()
        return self.program.contents()

    def sync(self) -> int:
        """Sync until all is published: a look, new versions, then what has vanished since."""
        new = 0
        for _ in range(3):
            self.clock.pass_s(INTERVAL_S)
            new += self.engine.sync()
        return new

    def die_at(self, change: int) -> None:
        """Let the process die before one of its changes in HDFS, counted from 1."""
        assert self.files is not None

        def die(number: int) -> None:
            if number >= change:
                raise DiedError

        self.files.before = die


def plain_files(disk: Disk) -> Contents:
    """What others see in the synced directory."""
    prefix = f"{ROOT}/"
    return {
        path[len(prefix) :]: data
        for path, data in disk.files.items()
        if path.startswith(prefix) and "/.ytf-sync/" not in path
    }


def contents_of(directory: Path) -> Contents:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def new_directory(parent: Path, number: int) -> Path:
    """The directory of a container on another node: empty."""
    path = parent / f"container-{number}" / "checkpoints"
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir(parents=True)
    return path


Step = Callable[[Program], None]
