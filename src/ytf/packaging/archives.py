"""Packs the files of a layer into one ``.tar.gz``, with the bytecode of its modules.

YARN chooses how to unpack an archive by the end of its name;
``docs/adr/0006-layers.md`` has the measurements behind this format. The same
files give the same archive. The stream consists of gzip members of one to two
megabytes, which gunzip reads as one stream and which are compressed in parallel.

Bytecode is packed because importing TensorFlow takes 4 s of a processor with
bytecode and 11 s without. A task often cannot write to a node's cache of
layers, so each task would compile again. Instead the submitter compiles, once
for each layer.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec
from isal import isal_zlib

from ytf.errors import SettingsError
from ytf.packaging import interpreter_script
from ytf.packaging.layers import (
    COMPILED_FOLDER,
    UNKNOWN_STAMP,
    Bytecode,
    CheckCancelled,
    LayerContent,
    LayerEntry,
    compiled_name,
    file_stamp,
    never_cancelled,
)

SUFFIX = ".tar.gz"

_BLOCK = 1 << 20
_LEVEL = 2
_GZIP = 31
_MTIME = 315_532_800  # 1980, the oldest time that zip files can hold.
_BATCH = 400
_COMPILER_HINT = "check that this interpreter runs; Python 3.8 or newer is needed"
_CANCELLATION_CHECK_S = 0.1
"""How often a running compilation calls ``check_cancelled``."""


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """An archive file on this machine, with the size and hash of its bytes."""

    path: Path
    size: int
    sha256: str


def pack(
    entries: list[LayerEntry], path: Path, check_cancelled: CheckCancelled = never_cancelled
) -> Archive:
    """Write the archive of these entries, sorted by path, to a new file.

    Raises ``SettingsError`` if a file changes while it is read. After any
    error, the file at ``path`` is incomplete.
    """
    with open(path, "xb") as file:
        # Not with tarfile's own compression, which uses only one processor.
        with GzipBlocks(file, check_cancelled) as stream, _tar(stream) as archive:
            for entry in sorted(entries, key=lambda entry: entry.path):
                _add(archive, entry)
        file.flush()
        return Archive(path=path, size=stream.size, sha256=stream.sha256.hexdigest())


def _tar(stream: GzipBlocks) -> tarfile.TarFile:
    # Not "w|": that mode copies what it has buffered for every piece that it writes.
    return tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT, copybufsize=_BLOCK)


def _add(archive: tarfile.TarFile, entry: LayerEntry) -> None:
    info = tarfile.TarInfo(entry.path)
    info.mtime = _MTIME
    info.mode = 0o755 if entry.executable else 0o644
    if entry.target:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(info)
    elif entry.is_directory:
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    elif entry.data is not None:
        info.size = len(entry.data)
        archive.addfile(info, io.BytesIO(entry.data))
    else:
        with open(entry.source, "rb") as source:
            found = os.fstat(source.fileno())
            if entry.stamp != UNKNOWN_STAMP and entry.stamp != file_stamp(found):
                # The digest was computed from the previous bytes.
                raise SettingsError(
                    f"{entry.source} was changed while it was being packed",
                    hint="submit again when nothing is being installed into the environment",
                )
            info.size = found.st_size
            archive.addfile(info, source)


class GzipBlocks(io.RawIOBase):
    """A stream that compresses on all processors into a file, and computes size and hash."""

    def __init__(self, file: IO[bytes], check_cancelled: CheckCancelled = never_cancelled) -> None:
        self._file = file
        self._check_cancelled = check_cancelled
        self._workers = os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._workers)
        self._under_way: deque[Future[bytes]] = deque()
        self._pieces: list[bytes] = []
        self._pending = 0
        self._written = 0
        self.size = 0
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # tarfile writes bytes only
        """Take bytes for compression; blocks while all processors are busy."""
        self._written += len(data)
        self._pending += len(data)
        self._pieces.append(data)
        if self._pending >= _BLOCK:
            self._submit()
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were taken so far."""
        return self._written

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if value is None:
                self._submit()
                while self._under_way:
                    self._drain()
        finally:
            self._pool.shutdown(cancel_futures=True)
            self.close()

    def _submit(self) -> None:
        self._check_cancelled()
        # Of a large file each piece is a block, and is not copied.
        block = b"".join(self._pieces)
        self._pieces.clear()
        self._pending = 0
        self._under_way.append(self._pool.submit(_gzip_member, block))
        if len(self._under_way) > 2 * self._workers:
            self._drain()

    def _drain(self) -> None:
        member = self._under_way.popleft().result()
        self._file.write(member)
        self.size += len(member)
        self.sha256.update(member)


def _gzip_member(block: bytes) -> bytes:
    # The header has neither time nor name, so equal blocks give equal members.
    compressor = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP)
    return compressor.compress(block) + compressor.flush()


def compile_modules(
    content: LayerContent, check_cancelled: CheckCancelled = never_cancelled
) -> list[LayerEntry]:
    """Compile the modules of a content; return the entries to be packed with it.

    Their bytes are in memory, not in files: ext4 is slow for half a minute after
    thousands of files were deleted. Raises ``SettingsError`` if the interpreter cannot
    be run. What ``check_cancelled`` raises also ends the interpreters.
    """
    code = content.bytecode
    if code is None:
        return []
    wanted: list[tuple[str, str]] = []
    places: list[str] = []
    for entry in content.entries:
        folder, _, name = entry.path.rpartition("/")
        compiled = compiled_name(folder, name, code.tag)
        if compiled is not None and entry.source:
            wanted.append((entry.source, entry.path))
            places.append(f"{folder}/{COMPILED_FOLDER}/{compiled}")
    batches = [wanted[i : i + _BATCH] for i in range(0, len(wanted), _BATCH)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        compiled_batches = pool.map(lambda batch: _compile(code, batch, check_cancelled), batches)
        modules = chain.from_iterable(compiled_batches)
        return [
            LayerEntry(path=place, data=data)
            for place, data in zip(places, modules, strict=True)
            if data
        ]


def _compile(
    code: Bytecode, batch: list[tuple[str, str]], check_cancelled: CheckCancelled
) -> list[bytes]:
    """Return the bytecode of each module; nothing for one that does not compile."""
    check_cancelled()
    # A file, not a pipe: communicate() with a timeout loses what it has not yet written to a pipe.
    with tempfile.TemporaryFile("w+") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in batch)
        lines.seek(0)
        process = subprocess.Popen(
            [code.python, "-I", "-S", interpreter_script.__file__, "compile"],
            stdin=lines,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    stdout, stderr = b"", b""
    with process:
        try:
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stdout, stderr = process.communicate(timeout=_CANCELLATION_CHECK_S)
                check_cancelled()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        last = (stderr.decode(errors="replace").strip() or "no message").splitlines()[-1]
        raise SettingsError(
            f"cannot compile modules with {code.python}: it exited with {process.returncode}: "
            f"{last}",
            hint=_COMPILER_HINT,
        )
    modules = list(_modules(stdout))
    if len(modules) != len(batch):
        raise SettingsError(
            f"cannot compile modules with {code.python}: it returned {len(modules)} of "
            f"{len(batch)} modules",
            hint=_COMPILER_HINT,
        )
    return modules


def _modules(stdout: bytes) -> Iterator[bytes]:
    """Yield each module from the output of ``interpreter_script``."""
    at = 0
    while at < len(stdout):
        begins = at + 8
        at = begins + int.from_bytes(stdout[at:begins], "big")
        yield stdout[begins:at]
