"""Bringing to HDFS what containers need: layers once, the job's own files each time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ytf.backends.api import Tell
from ytf.backends.yarn.baggage import (
    CONFIGURATION,
    Baggage,
    Environment,
    StarterBaggage,
)
from ytf.backends.yarn.home import JobHome, YarnHome
from ytf.backends.yarn.submit.uploading import Uploading
from ytf.errors import SpecError
from ytf.hadoop.conf import FILES, Configuration
from ytf.hadoop.yarn.launch import FileType, LocalFile, Visibility
from ytf.packaging import installation
from ytf.packaging.archives import SUFFIX, pack
from ytf.packaging.cache import LayerCache
from ytf.packaging.launching import Places, module_script, starter_script
from ytf.packaging.layers import Going, Layer, LayerKind, content, unstopped
from ytf.packaging.shipping import MANIFEST, Shipment, ShippedEnvironment, ShippedRuntime
from ytf.packaging.store import LayerStore, StoredLayer
from ytf.packaging.store import Visibility as LayerVisibility
from ytf.packaging.walking import walk
from ytf.specs.job import JobSpec
from ytf.specs.urls import is_url
from ytf.starter.config import ROOM
from ytf.storage.files import Files, FileStatus
from ytf.storage.hdfs import HdfsFiles, path_of

if TYPE_CHECKING:
    from ytf.client.plan import Plan, Upload

_AT_ONCE = 8
_CHUNK = 1 << 20
# A node's script has names between double quotes, and nothing in them is quoted.
_UNSAFE = set('"$`\\\n')


@dataclass(frozen=True)
class Shipped:
    """What is in HDFS now, by who brings it along, and the script that starts the master."""

    master: Baggage
    master_script: str
    starter: StarterBaggage


def ship(
    home: YarnHome,
    job_home: JobHome,
    cache: LayerCache,
    conf: Configuration,
    owner: str,
    plan: Plan,
    tell: Tell,
    going: Going = unstopped,
) -> Shipped:
    """Have all layers in the layer store, and all else in the job's staging directory.

    What ``going`` raises ends it half-way, as far as it is done on this machine.
    """
    for upload in plan.uploads:
        check_name(upload.name)
    shipment = Shipment(cache)
    runtime = shipment.add_runtime(
        installation.current(), with_interpreter=plan.spec.python is None
    )
    settings = _configuration(shipment, conf)
    shipped = _environments(shipment, plan.spec)
    store = LayerStore(home.files, home.layers, owner)
    store.use(PurePosixPath(job_home.staging).name, shipment.layers)
    uploading = Uploading(tell)
    stored = store.ensure(shipment.layers, uploading.packing(shipment.archive), uploading.progress)
    uploading.done()
    layers = {
        each.layer.digest: (_layer_name(each.layer), _of_layer(home.files, each)) for each in stored
    }
    places = _places(runtime, plan.spec.python)
    interpreter = runtime.made_of.interpreter
    sources = [upload.source for upload in plan.uploads]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        files = {
            upload.name: pool.submit(
                _upload,
                job_home,
                conf,
                number,
                upload,
                going,
                is_first=sources.index(upload.source) == number,
            )
            for number, upload in enumerate(plan.uploads)
        }
    environments = {group: _environment(each, layers) for group, each in shipped.items()}
    return Shipped(
        master=dict(layers[layer.digest] for layer in runtime.layers)
        | ({} if settings is None else {CONFIGURATION: layers[settings.digest][1]}),
        master_script=module_script("ytf.master", places, interpreter),
        starter=StarterBaggage(
            script=starter_script(places, interpreter),
            files={name: done.result() for name, done in files.items()}
            | dict(layers[layer.digest] for layer in runtime.starter_layers),
            environments=environments,
        ),
    )


def _environments(shipment: Shipment, spec: JobSpec) -> dict[str, ShippedEnvironment]:
    """What each group runs on, of those that bring something."""
    wanted = {name: group.environment or spec.environment for name, group in spec.groups.items()}
    added = {
        path: shipment.add_environment(installation.at(Path(path)))
        for path in sorted({path for path in wanted.values() if path != "node"})
    }
    return {name: added[path] for name, path in wanted.items() if path in added}


def _environment(
    shipped: ShippedEnvironment, layers: dict[str, tuple[str, LocalFile]]
) -> Environment:
    own = {layer.digest: layers[layer.digest] for layer in shipped.layers}
    folder, file = layers[shipped.manifest_layer.digest]
    return Environment(
        manifest=f"{folder}/{MANIFEST}",
        layers={digest: place for digest, (place, _) in own.items()},
        files={folder: file, **dict(own.values())},
    )


def _places(runtime: ShippedRuntime, python: str | None) -> Places:
    interpreter = runtime.interpreter
    return Places(
        code=_layer_name(runtime.code),
        libraries=[_layer_name(layer) for layer in runtime.libraries],
        interpreter="" if interpreter is None else _layer_name(interpreter),
        python=python,
        packages=runtime.made_of.packages,
        version=runtime.made_of.version,
    )


def _configuration(shipment: Shipment, conf: Configuration) -> Layer | None:
    """The submitter's configuration, for nodes that show containers none of theirs.

    As a layer it is uploaded and fetched once, and not with each job.
    """
    if conf.directory is None:
        return None
    entries = walk(os.fspath(conf.directory), skip=lambda found: found.name not in FILES)
    return shipment.add(content(LayerKind.SETTINGS, "Hadoop's configuration", entries))


def check_name(name: str) -> None:
    """Raise ``SpecError`` for what cannot be a name in a working directory."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or not parts or {"..", ROOM} & set(parts) or _UNSAFE & set(name):
        raise SpecError(
            f"{name!r} cannot be the name of a shipped file",
            hint=f'use one relative to the working directory, not in {ROOM}, without " $ ` \\',
        )


def _upload(
    job_home: JobHome,
    conf: Configuration,
    number: int,
    upload: Upload,
    going: Going,
    *,
    is_first: bool,
) -> LocalFile:
    """A file as it is, a directory as an archive that nodes unpack under its name.

    ``is_first``: nothing else that is shipped has the same source.
    """
    if is_url(upload.source):
        return _in_hdfs(job_home, conf, number, upload, is_first=is_first)
    source = Path(upload.source)
    if not source.is_dir():
        return _stage(job_home, f"files/{number}/{source.name}", _pieces(source))
    with tempfile.TemporaryDirectory(prefix="ytf-") as folder:
        made = pack(list(walk(os.fspath(source))), Path(folder, f"files{SUFFIX}"), going)
        return _stage(
            job_home, f"files/{number}/{made.path.name}", _pieces(made.path), FileType.ARCHIVE
        )


def _in_hdfs(
    job_home: JobHome, conf: Configuration, number: int, upload: Upload, *, is_first: bool
) -> LocalFile:
    """What is there already, be it a file or a directory: nodes fetch it from where it lies.

    They bring one source under one name only, so a second name gets a copy.
    """
    files, path = HdfsFiles.open(upload.source, conf), path_of(upload.source)
    try:
        found = files.stat(path)
    except FileNotFoundError as exc:
        raise SpecError(f"there is no {upload.source} to ship") from exc
    if is_first:
        return _of_staged(files, found)
    if found.is_directory:
        raise SpecError(
            f"{upload.source} is a directory, and shipped under two names",
            hint="ship it once, and make a link in the command",
        )
    return _stage(job_home, f"files/{number}/{found.name}", files.read(path))


def _stage(
    job_home: JobHome,
    name: str,
    pieces: Iterator[bytes] | list[bytes],
    type_: FileType = FileType.FILE,
) -> LocalFile:
    path = f"{job_home.staging}/{name}"
    if "/" in name:
        job_home.files.mkdir(str(PurePosixPath(path).parent))
    return _of_staged(job_home.files, job_home.files.write(path, pieces), type_)


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece
    except OSError as exc:
        raise SpecError(f"cannot ship {path}: {exc.strerror}") from exc


def _layer_name(layer: Layer) -> str:
    """The directory into which a node unpacks a layer.

    So deep that nodes, which list every container's files for its log, five
    directories deep and through links, do not list the modules of a layer.
    """
    return f"{ROOM}/layers/{layer.digest[:16]}"


def _of_layer(files: Files, stored: StoredLayer) -> LocalFile:
    """A layer, shared by as many of a node's applications as may read it."""
    is_public = stored.visibility is LayerVisibility.PUBLIC
    return LocalFile(
        url=files.uri(stored.path),
        size=stored.size,
        modified_ms=stored.mtime_ms,
        type=FileType.ARCHIVE,
        visibility=Visibility.PUBLIC if is_public else Visibility.PRIVATE,
    )


def _of_staged(files: Files, status: FileStatus, type_: FileType = FileType.FILE) -> LocalFile:
    """A file of the job's own."""
    return LocalFile(
        url=files.uri(status.path), size=status.size, modified_ms=status.mtime_ms, type=type_
    )
