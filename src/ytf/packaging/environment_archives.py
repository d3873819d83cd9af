"""Makes environments from archives: of conda-pack or venv-pack, any tar or zip of one, a pex file.

An archive is unpacked once, into a directory named by its content. What in it names the
place where it was packed is then made to name that directory. Archives come from elsewhere:
members that would lie outside of the directory end the unpacking, and so does a size that
no environment has.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ytf.errors import SettingsError
from ytf.home import home_directory, make_private_directory
from ytf.packaging import installation
from ytf.packaging.environment_layers import relocatable_text
from ytf.packaging.installers import InstallProgress, run_step
from ytf.packaging.layers import is_inside, target_inside
from ytf.packaging.made_environments import (
    DIGESTS,
    DOWNLOADS,
    FOLDER,
    INCOMPLETE,
    EnvironmentRecipe,
)

TAR_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
ZIP_SUFFIXES = (".zip",)
PEX_SUFFIXES = (".pex",)
SUFFIXES = (*TAR_SUFFIXES, *ZIP_SUFFIXES, *PEX_SUFFIXES)
FULL_DISK_HINT = "if the disk is full, `ytf gc` makes room, or set YTF_HOME to another disk"

_MOST_BYTES = 64 << 30
_MOST_MEMBERS = 2_000_000
_PIECE = 1 << 20
_PEX_INFO = "PEX-INFO"
_BOOTSTRAP = ".bootstrap"
"""The directory in a pex with pex's own code; in one of the layout packed it is a zip file."""
_PEX_TOOLS = "pex/tools/"
_LARGEST_SCRIPT = 1 << 20
# Their Python is a part of a machine, not of an environment.
_SYSTEM = {"/usr/bin", "/bin", "/usr/local/bin"}


def archive_recipe(file: Path) -> EnvironmentRecipe:
    """Return how to make the environment in an archive. Reads it if it is not known.

    Raises ``SettingsError`` if it cannot be read.
    """
    try:
        is_pex = _is_pex(file)
        name = f"archive-{_digest(file)[:16]}"
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    if is_pex:
        # It is made for the Python that makes it.
        name += f"-{sys.implementation.cache_tag}"

    def make(path: Path, progress: InstallProgress) -> None:
        make_from_archive(file, path, progress)

    return EnvironmentRecipe(name=name, about=file.name, make=make)


def make_from_archive(file: Path, path: Path, progress: InstallProgress) -> None:
    """Make the environment in an archive at a path that does not exist yet.

    Raises ``SettingsError`` if the archive is none of an environment that runs here; what is
    at the path then is to be removed.
    """
    try:
        is_pex = _is_pex(file)
    except OSError as exc:
        raise _unreadable(file, exc) from exc
    if is_pex:
        _make_from_pex(file, path, progress)
    else:
        _unpack(file, path, progress)


def _unreadable(file: Path, exc: OSError) -> SettingsError:
    return SettingsError(f"{file} cannot be read: {exc.strerror or exc}")


def _digest(file: Path) -> str:
    """Return the hash of a file; it is kept, so that an unchanged file is read only once."""
    status = file.stat()
    about = (str(file), status.st_size, status.st_mtime_ns, status.st_ino)
    known = home_directory(FOLDER) / DIGESTS
    place = known / hashlib.sha256(repr(about).encode(errors="surrogateescape")).hexdigest()[:40]
    try:
        return place.read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    make_private_directory(known.parent)
    make_private_directory(known)
    temporary = known / f".{os.getpid()}"
    temporary.write_text(digest.hexdigest(), encoding="ascii")
    temporary.replace(place)
    return digest.hexdigest()


def _is_pex(file: Path) -> bool:
    """Whether it is a pex file, by its name or by its content."""
    if file.name.endswith(PEX_SUFFIXES):
        return True
    return file.name.endswith(ZIP_SUFFIXES) and _PEX_INFO in _zip_names(file)


def _zip_names(file: Path) -> list[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []


def _make_from_pex(file: Path, path: Path, progress: InstallProgress) -> None:
    if file.name.endswith(PEX_SUFFIXES):
        _run_pex_tools(file, file, path, progress)
        return
    # A large one is a zip archive of a pex of the layout packed or loose, which is a directory.
    folder = path.parent / DOWNLOADS / path.name
    unpacked = folder / INCOMPLETE
    try:
        with _explained(file, unpacked):
            shutil.rmtree(unpacked, ignore_errors=True)
            make_private_directory(folder.parent)
            make_private_directory(folder)
            unpacked.mkdir()
            _unpack_zip(file, unpacked, progress)
        _run_pex_tools(file, unpacked, path, progress)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
        with contextlib.suppress(OSError):
            # Not if a downloaded file is in it.
            folder.rmdir()


def _run_pex_tools(file: Path, pex: Path, path: Path, progress: InstallProgress) -> None:
    """Let pex's tools make an environment of a pex, a file or a directory, that is in a file."""
    names = _zip_names(pex) if pex.is_file() else os.listdir(pex)
    if _PEX_INFO not in names:
        raise SettingsError(f"{file} is not a pex file: it has no {_PEX_INFO}")
    environ = {name: value for name, value in os.environ.items() if not _chooses_program(name)}
    tools = shutil.which("pex-tools")
    if _has_tools(pex):
        environ["PEX_TOOLS"] = "1"
        command = [sys.executable, str(pex)]
    elif importlib.util.find_spec("pex") is not None:
        command = [sys.executable, "-m", "pex.tools", str(pex)]
    elif tools is not None:
        command = [tools, str(pex)]
    else:
        raise SettingsError(
            f"{file} was built without pex's tools, which make an environment of it",
            hint="build it with `pex --include-tools …`, or install pex beside ytf: "
            "pip install pex",
        )
    run_step(
        [*command, "venv", str(path)],
        about=file.name,
        cwd=file.parent,
        progress=progress,
        hint="the pex file has to run here: check with `python " + file.name + "`",
        environ=environ,
    )
    _check(file, path)


def _has_tools(pex: Path) -> bool:
    """Whether a pex, a file or a directory, has the part of pex that makes environments."""
    if pex.is_file():
        return any(name.startswith(f"{_BOOTSTRAP}/{_PEX_TOOLS}") for name in _zip_names(pex))
    own = pex / _BOOTSTRAP
    if own.is_file():
        return any(name.startswith(_PEX_TOOLS) for name in _zip_names(own))
    return (own / _PEX_TOOLS).is_dir()


def _chooses_program(name: str) -> bool:
    """Whether a variable makes a pex file run something else than is asked for here."""
    return name in ("PEX_MODULE", "PEX_SCRIPT", "PEX_INTERPRETER")


def _unpack(file: Path, path: Path, progress: InstallProgress) -> None:
    with _explained(file, path):
        path.mkdir()
        if file.name.endswith(ZIP_SUFFIXES):
            _unpack_zip(file, path, progress)
        else:
            _unpack_tar(file, path, progress)
        _lift(path)
    python, unpack = path / "bin" / "python", path / "bin" / "conda-unpack"
    if not os.path.lexists(python):
        raise SettingsError(
            f"{file} is not an archive of an environment: it has no bin/python, neither at its "
            "top nor in its only directory",
            hint="pack the directory of a venv or conda environment, with conda-pack or venv-pack "
            "for instance",
        )
    if unpack.exists():
        run_step(
            # With its own Python: its first line would take the first one on the PATH.
            [str(python), str(unpack)],
            about=file.name,
            cwd=path,
            progress=progress,
            hint="make the archive again with conda-pack, on a machine of the same kind",
        )
    _adopt_scripts(path)
    _check(file, path)


@contextlib.contextmanager
def _explained(file: Path, path: Path) -> Iterator[None]:
    """Raise what prevents the unpacking of an archive into a directory as ``SettingsError``."""
    try:
        yield
    # The last two are zipfile's: for damaged data, and for an encrypted file.
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError) as exc:
        raise SettingsError(f"{file} cannot be unpacked: {exc}") from exc
    except OSError as exc:
        raise SettingsError(
            f"{file} cannot be unpacked into {path}: {exc.strerror or exc}",
            hint=FULL_DISK_HINT,
        ) from exc


def _check(file: Path, path: Path) -> None:
    """Raise ``SettingsError`` unless the environment runs here."""
    try:
        installation.at(path)
    except SettingsError as exc:
        raise SettingsError(
            f"the environment in {file} does not run on this machine: {exc}",
            hint="a venv needs the Python that it was made with, at the same path (home in its "
            "pyvenv.cfg); conda-pack's archives bring their own",
        ) from exc


def _lift(path: Path) -> None:
    """Move an environment that is the only directory of an archive to its top."""
    names = os.listdir(path)
    if len(names) == 1 and os.path.lexists(path / names[0] / "bin" / "python"):
        # Under another name first: it may have something of its own name in it.
        only = (path / names[0]).rename(path / ".lifted")
        for each in only.iterdir():
            each.rename(path / each.name)
        only.rmdir()


def _adopt_scripts(path: Path) -> None:
    """Have the programs in ``bin`` start the Python beside them, not the one that was packed."""
    for script in (path / "bin").iterdir():
        if script.is_symlink() or not script.is_file() or script.stat().st_size > _LARGEST_SCRIPT:
            continue
        changed = relocatable_text(script.read_bytes(), lambda folder: folder not in _SYSTEM)
        if changed is not None:
            script.write_bytes(changed)


def _unpack_tar(file: Path, path: Path, progress: InstallProgress) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise SettingsError(
            f"this Python ({sys.version.split()[0]}) unpacks archives without checking them",
            hint="use ytf with Python 3.10.12, 3.11.4 or newer; or unpack it, and give the "
            "directory",
        )
    count = size = 0
    with tarfile.open(file, "r|*") as archive:
        for member in archive:
            count, size = count + 1, size + member.size
            _check_bounds(file, count, size)
            progress.working(f"{count:,} files")
            archive.extract(member, path, filter=_checked_member)


def _checked_member(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """Let only the links of a venv to its interpreter lead out of the directory."""
    if member.issym() and _is_python_link(member.name):
        return tarfile.tar_filter(member, path)
    return tarfile.data_filter(member, path)


def _is_python_link(name: str) -> bool:
    folder, _, program = name.rpartition("/")
    return (
        folder.rpartition("/")[2] == "bin" and re.fullmatch(r"python[0-9.]*", program) is not None
    )


def _unpack_zip(file: Path, path: Path, progress: InstallProgress) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_bounds(file, len(members), sum(member.file_size for member in members))
        links = []
        for count, member in enumerate(members):
            progress.working(f"{count:,} of {len(members):,} files")
            name = member.filename.rstrip("/").removeprefix("./")
            if not name:
                continue
            if not is_inside(name):
                raise SettingsError(f"{file} has a file outside of it: {member.filename!r}")
            target, mode = path / name, member.external_attr >> 16
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.is_dir():
                target.mkdir(exist_ok=True)
            elif stat.S_ISLNK(mode):
                links.append((name, os.fsdecode(archive.read(member))))
            else:
                with archive.open(member) as source, open(target, "xb") as copy:
                    shutil.copyfileobj(source, copy, _PIECE)
                target.chmod(0o755 if mode & 0o111 else 0o644)
        # At the end, so that no file is written through a link.
        for name, led_to in links:
            if target_inside(name, led_to) is None and not _is_python_link(name):
                raise SettingsError(f"{file} has a link that leads out of it: {name} → {led_to}")
            (path / name).symlink_to(led_to)


def _check_bounds(file: Path, count: int, size: int) -> None:
    if count > _MOST_MEMBERS or size > _MOST_BYTES:
        raise SettingsError(
            f"{file} is no environment: it has more than {_MOST_MEMBERS:,} files or "
            f"{_MOST_BYTES >> 30} GiB"
        )
