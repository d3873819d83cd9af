"""Bringing to HDFS what containers need: ytf's runtime once, the job's own files each time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ytf.backends.yarn import baggage
from ytf.backends.yarn.baggage import MASTER_SCRIPT, STARTER_SCRIPT, Baggage
from ytf.backends.yarn.home import JobHome, YarnHome
from ytf.errors import SpecError
from ytf.hadoop.conf import FILES, Configuration
from ytf.hadoop.yarn.launch import FileType, LocalFile
from ytf.packaging import installation
from ytf.packaging.archives import SUFFIX, pack
from ytf.packaging.cache import LayerCache
from ytf.packaging.launching import Places, module_script, starter_script
from ytf.packaging.runtime import Runtime, runtime
from ytf.packaging.store import LayerStore, StoredLayer
from ytf.packaging.walking import walk

if TYPE_CHECKING:
    from ytf.client.plan import Upload

_AT_ONCE = 8
_CHUNK = 1 << 20
# A node's script has names between double quotes, and nothing in them is quoted.
_UNSAFE = set('"$`\\\n')


@dataclass(frozen=True)
class Shipped:
    """What is in HDFS now, by who brings it along."""

    master: Baggage
    starter: Baggage


def ship(
    home: YarnHome,
    job_home: JobHome,
    cache: LayerCache,
    conf: Configuration,
    owner: str,
    uploads: tuple[Upload, ...],
) -> Shipped:
    """Have the runtime in the layer store, and all else in the job's staging directory."""
    for upload in uploads:
        check_name(upload.name)
    made = runtime(installation.current())
    contents = {cache.describe(content).digest: content for content in made.contents}
    layers = [cache.describe(content) for content in made.contents]
    store = LayerStore(home.files, home.layers, owner)
    store.use(PurePosixPath(job_home.staging).name, layers)
    stored = store.ensure(layers, lambda layer: cache.archive(contents[layer.digest]))
    common = {baggage.layer_name(each): baggage.of_layer(home.files, each) for each in stored}
    places = _places(made, stored)
    texts = {
        STARTER_SCRIPT: starter_script(places, made.interpreter),
        MASTER_SCRIPT: module_script("ytf.master", places, made.interpreter),
    }
    settings = _conf_files(conf)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        scripts = {
            name: pool.submit(_stage, job_home, name, [text.encode()])
            for name, text in texts.items()
        }
        confs = {name: pool.submit(_stage, job_home, name, _pieces(p)) for name, p in settings}
        numbered = enumerate(uploads)
        files = {each.name: pool.submit(_upload, job_home, n, each) for n, each in numbered}
    starter = {name: done.result() for name, done in files.items()}
    starter |= common | {STARTER_SCRIPT: scripts[STARTER_SCRIPT].result()}
    master = {name: done.result() for name, done in confs.items()}
    master |= common | {MASTER_SCRIPT: scripts[MASTER_SCRIPT].result()}
    return Shipped(master, starter)


def _places(made: Runtime, stored: list[StoredLayer]) -> Places:
    names = [baggage.layer_name(each) for each in stored]
    interpreter = "" if made.interpreter is None else names.pop(0)
    code, *libraries = names
    return Places(
        code=code,
        libraries=libraries,
        interpreter=interpreter,
        packages=made.packages,
        version=made.version,
    )


def _conf_files(conf: Configuration) -> list[tuple[str, Path]]:
    """The submitter's configuration, for nodes that show containers none of theirs."""
    if conf.directory is None:
        return []
    found = [(name, conf.directory / name) for name in FILES]
    return [(name, path) for name, path in found if path.is_file()]


def check_name(name: str) -> None:
    """Raise ``SpecError`` for what cannot be a name in a working directory."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or not parts or _UNSAFE & set(name):
        raise SpecError(
            f"{name!r} cannot be the name of a shipped file",
            hint='use one relative to the working directory, without any of " $ ` \\',
        )


def _upload(job_home: JobHome, number: int, upload: Upload) -> LocalFile:
    """A file as it is, a directory as an archive that nodes unpack under its name."""
    source = Path(upload.source)
    if not source.is_dir():
        return _stage(job_home, f"files/{number}/{source.name}", _pieces(source))
    with tempfile.TemporaryDirectory(prefix="ytf-") as folder:
        made = pack(list(walk(os.fspath(source))), Path(folder, f"files{SUFFIX}"))
        return _stage(
            job_home, f"files/{number}/{made.path.name}", _pieces(made.path), FileType.ARCHIVE
        )


def _stage(
    job_home: JobHome,
    name: str,
    pieces: Iterator[bytes] | list[bytes],
    type_: FileType = FileType.FILE,
) -> LocalFile:
    path = f"{job_home.staging}/{name}"
    if "/" in name:
        job_home.files.mkdir(str(PurePosixPath(path).parent))
    return baggage.of_staged(job_home.files, job_home.files.write(path, pieces), type_)


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece
    except OSError as exc:
        raise SpecError(f"cannot ship {path}: {exc.strerror}") from exc
