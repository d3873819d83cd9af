"""Uploads to HDFS what containers need: layers once, the job's own files with each job."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ytf.backends.api import Notify, PassingNotice
from ytf.backends.yarn.hdfs_layout import JobHome, YarnHome
from ytf.backends.yarn.launch_contexts import (
    GroupEnvironment,
    LocalResources,
    StarterResources,
)
from ytf.errors import SpecError
from ytf.hadoop.conf import FILES, Configuration
from ytf.hadoop.yarn.contexts import LocalResource, LocalResourceType, LocalResourceVisibility
from ytf.packaging import installation
from ytf.packaging.archives import SUFFIX, Archive, pack
from ytf.packaging.hdfs_plugin import FOLDER
from ytf.packaging.job_layers import MANIFEST_FILE, EnvironmentLayers, JobLayers, RuntimeLayers
from ytf.packaging.launch_scripts import (
    RuntimePaths,
    helper_arguments,
    module_script,
    starter_script,
)
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layer_store import LayerStore, LayerVisibility, StoredLayer
from ytf.packaging.layers import (
    CheckCancelled,
    Layer,
    LayerKind,
    layer_content,
    never_cancelled,
    walk,
)
from ytf.specs.amounts import format_bytes
from ytf.specs.job import is_url
from ytf.starter.config import CONTAINER_DIR
from ytf.storage.container_conf import CONF_DIR
from ytf.storage.files import Files, FileStatus
from ytf.storage.hdfs import HdfsFiles, path_of
from ytf.storage.hdfs_client import COMMAND_ANSWER_S

if TYPE_CHECKING:
    from ytf.backends.api import Plan, Upload

_AT_ONCE = 8
_CHUNK = 1 << 20
# Nodes write the names into a shell script, between double quotes and without escaping.
_UNSAFE = set('"$`\\\n')


@dataclass(frozen=True)
class UploadedResources:
    """The local resources of the master and of starters, and the script that starts the master."""

    master: LocalResources
    master_script: str
    starter: StarterResources


@dataclass(frozen=True)
class CollectedLayers:
    """The layers that a job needs. No cluster was asked: it may or may not have them."""

    layers: JobLayers
    runtime: RuntimeLayers
    settings: Layer | None
    environments: dict[str, EnvironmentLayers]
    """By group, of those that do not use the node's own."""
    hdfs_plugin: Layer | None


def collect_layers(cache: LayerCache, conf: Configuration, plan: Plan) -> CollectedLayers:
    """Find out which layers a job needs, from the files of this machine alone."""
    layers = JobLayers(cache)
    wanted = {name: group.env or plan.spec.env for name, group in plan.spec.groups.items()}
    paths = sorted({path for path in wanted.values() if path != "node"})
    with ThreadPoolExecutor(1) as pool:
        # Some are asked by running their Python, which takes no time of this process.
        found = pool.map(layers.find_installation, map(Path, paths))
        runtime = layers.add_runtime(
            installation.current(), with_interpreter=plan.spec.python is None
        )
        added = {
            path: layers.add_environment(each) for path, each in zip(paths, found, strict=True)
        }
    return CollectedLayers(
        layers=layers,
        runtime=runtime,
        settings=_configuration(layers, conf),
        environments={name: added[path] for name, path in wanted.items() if path in added},
        hdfs_plugin=layers.add_hdfs_plugin(plan.hdfs_plugin) if plan.hdfs_plugin else None,
    )


def upload_resources(
    home: YarnHome,
    job_home: JobHome,
    collected: CollectedLayers,
    conf: Configuration,
    owner: str,
    plan: Plan,
    notify: Notify,
    check_cancelled: CheckCancelled = never_cancelled,
) -> UploadedResources:
    """Upload all layers to the layer store and all other files to the job's staging directory.

    ``check_cancelled`` is called between steps; the error that it raises cancels the work.
    """
    for upload in plan.uploads:
        check_file_name(upload.name)
    job_layers, runtime, plugin = collected.layers, collected.runtime, collected.hdfs_plugin
    shipped = collected.environments
    for note in dict.fromkeys(note for each in shipped.values() for note in each.notes):
        notify(f"note: {note}")
    store = LayerStore(home.files, home.layers, owner)
    store.declare_use(PurePosixPath(job_home.staging).name, job_layers.layers)
    progress = UploadProgress(notify)
    stored = store.ensure(job_layers.layers, progress.packing(job_layers.archive), progress.sent)
    progress.done()
    layers = {
        each.layer.digest: (_layer_name(each.layer), _of_layer(home.files, each)) for each in stored
    }
    places = _places(runtime, plan.spec.python)
    interpreter = runtime.runtime.interpreter
    sources = [upload.source for upload in plan.uploads]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        files = {
            upload.name: pool.submit(
                _upload,
                job_home,
                conf,
                number,
                upload,
                check_cancelled,
                is_first=sources.index(upload.source) == number,
            )
            for number, upload in enumerate(plan.uploads)
        }
    ours = dict(layers[layer.digest] for layer in runtime.layers)
    if collected.settings is not None:
        ours[CONF_DIR] = layers[collected.settings.digest][1]
    environments = {group: _environment(each, layers) for group, each in shipped.items()}
    # All starters get the plugin's layer; which of their programs use it is said at their launch.
    of_starters = ours | dict([layers[plugin.digest]]) if plugin else ours
    return UploadedResources(
        master=ours,
        master_script=module_script("ytf.master", places, interpreter),
        starter=StarterResources(
            script=starter_script(places, interpreter),
            # All of ours: a starter that looks for the master needs what the master needs.
            files={name: done.result() for name, done in files.items()} | of_starters,
            helper=tuple(helper_arguments(places)),
            finder=("ytf.backends.yarn.find_master", job_home.files.uri(job_home.masters)),
            hdfs_plugin=f"{_layer_name(plugin)}/{FOLDER}" if plugin else "",
            environments=environments,
        ),
    )


def runtime_script(cache: LayerCache, module: str, python: str | None) -> str:
    """Return a script that runs a module of ytf in any container, on the runtime of its starter.

    ``python`` is that of the job's spec.
    """
    runtime = JobLayers(cache).add_runtime(installation.current(), with_interpreter=python is None)
    return module_script(module, _places(runtime, python), runtime.runtime.interpreter)


def _environment(
    shipped: EnvironmentLayers, layers: dict[str, tuple[str, LocalResource]]
) -> GroupEnvironment:
    own = [layers[layer.digest] for layer in shipped.layers]
    folder, file = layers[shipped.manifest_layer.digest]
    return GroupEnvironment(
        manifest=f"{folder}/{MANIFEST_FILE}",
        layers=tuple(place for place, _ in own),
        files={folder: file, **dict(own)},
    )


def _places(runtime: RuntimeLayers, python: str | None) -> RuntimePaths:
    interpreter = runtime.interpreter
    return RuntimePaths(
        code=_layer_name(runtime.code),
        libraries=[_layer_name(layer) for layer in runtime.libraries],
        interpreter="" if interpreter is None else _layer_name(interpreter),
        python=python,
        packages=runtime.runtime.packages,
        version=runtime.runtime.version,
    )


def _configuration(job_layers: JobLayers, conf: Configuration) -> Layer | None:
    """The submitter's Hadoop configuration, for nodes that do not give containers their own.

    As a layer it is uploaded and localized once, not with each job.
    """
    if conf.directory is None:
        return None
    entries = walk(os.fspath(conf.directory), skip=lambda found: found.name not in FILES)
    return job_layers.add(layer_content(LayerKind.SETTINGS, "Hadoop's configuration", entries))


def check_file_name(name: str) -> None:
    """Raise ``SpecError`` for a name that a file in a working directory cannot have."""
    parts = PurePosixPath(name).parts
    if (
        name.startswith("/")
        or not parts
        or {"..", CONTAINER_DIR} & set(parts)
        or _UNSAFE & set(name)
    ):
        raise SpecError(
            f"{name!r} cannot be the name of a shipped file",
            hint="use one relative to the working directory, "
            f'not in {CONTAINER_DIR}, without " $ ` \\',
        )


def _upload(
    job_home: JobHome,
    conf: Configuration,
    number: int,
    upload: Upload,
    check_cancelled: CheckCancelled,
    *,
    is_first: bool,
) -> LocalResource:
    """Upload a file as it is, a directory as an archive that nodes unpack under its name.

    ``is_first``: no upload before it has the same source.
    """
    if is_url(upload.source):
        return _in_hdfs(job_home, conf, number, upload, is_first=is_first)
    source = Path(upload.source)
    if not source.is_dir():
        return _stage(job_home, f"files/{number}/{source.name}", _pieces(source))
    with tempfile.TemporaryDirectory(prefix="ytf-") as folder:
        entries = walk(os.fspath(source), empty_directories=True)
        made = pack(entries, Path(folder, f"files{SUFFIX}"), check_cancelled)
        return _stage(
            job_home,
            f"files/{number}/{made.path.name}",
            _pieces(made.path),
            LocalResourceType.ARCHIVE,
        )


def _in_hdfs(
    job_home: JobHome, conf: Configuration, number: int, upload: Upload, *, is_first: bool
) -> LocalResource:
    """A file or directory that is in HDFS already: nodes localize it from there.

    Nodes localize one source under one name only, so a second name gets a copy.
    """
    files = HdfsFiles.open(upload.source, conf, answer_s=COMMAND_ANSWER_S)
    path = path_of(upload.source)
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
    type_: LocalResourceType = LocalResourceType.FILE,
) -> LocalResource:
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

    Nodes list the files of every container for its log, five directories deep and
    through links. This directory is deep enough that a layer's modules are not listed.
    """
    return f"{CONTAINER_DIR}/layers/{layer.digest[:16]}"


def _of_layer(files: Files, stored: StoredLayer) -> LocalResource:
    """The local resource of a layer, shared by all of a node's applications that may read it."""
    is_public = stored.visibility is LayerVisibility.PUBLIC
    return LocalResource(
        url=files.uri(stored.path),
        size=stored.size,
        modified_ms=stored.mtime_ms,
        type=LocalResourceType.ARCHIVE,
        visibility=LocalResourceVisibility.PUBLIC if is_public else LocalResourceVisibility.PRIVATE,
    )


def _of_staged(
    files: Files, status: FileStatus, type_: LocalResourceType = LocalResourceType.FILE
) -> LocalResource:
    """The local resource of a file of this job alone."""
    return LocalResource(
        url=files.uri(status.path), size=status.size, modified_ms=status.mtime_ms, type=type_
    )


_BIG = 8 << 20
"""Layers above this size get messages of their own."""


_TELL_S = 0.25
_BAR_WIDTH = 30


def _bar(done: int, total: int) -> str:
    """How far an upload is; the total grows while layers are packed."""
    filled = _BAR_WIDTH * done // max(total, 1)
    bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
    return f"uploading {bar} {format_bytes(done)} of {format_bytes(total)} packed so far"


class UploadProgress:
    """Notifies the submitter of uploads that take long, and of their total. Thread-safe."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._sizes: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        self._told_at = 0.0

    def packing(self, archive: Callable[[Layer], Archive]) -> Callable[[Layer], Archive]:
        """``archive``, with a message before it packs a big layer."""

        def notified(layer: Layer) -> Archive:
            if layer.size > _BIG:
                self._notify(f"packing {layer.name} ({format_bytes(layer.size)})")
            return archive(layer)

        return notified

    def sent(self, layer: Layer, sent: int, size: int) -> None:
        """Note that ``sent`` bytes of a layer are in HDFS."""
        with self._lock:
            self._sizes[layer.digest] = size
            self._sent[layer.digest] = sent
            done, total = sum(self._sent.values()), sum(self._sizes.values())
            is_due = time.monotonic() - self._told_at >= _TELL_S
            if is_due:
                self._told_at = time.monotonic()
        if sent == 0 and size > _BIG:
            self._notify(f"uploading {layer.name} ({format_bytes(size)})")
        if is_due and total > _BIG:
            self._notify(PassingNotice(_bar(done, total)))

    def done(self) -> None:
        """Notify of the total, if anything was uploaded."""
        if self._sizes:
            took = time.monotonic() - self._began
            count = len(self._sizes)
            layers = "1 layer" if count == 1 else f"{count} layers"
            total = format_bytes(sum(self._sizes.values()))
            self._notify(
                f"uploaded {layers}, {total}, in {took:.0f} s;"
                " the next job that needs the same uploads nothing"
            )
