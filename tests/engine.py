"""A real container engine for tests: podman, with configuration and storage of its own.

Nothing of the machine's own containers and images is seen or changed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ytf.testing.waiting import eventually

IMAGE = "localhost/ytf-test:1"
"""Has busybox and nothing else: no bash, no passwd, no Python."""
PYTHON_IMAGE = "localhost/ytf-python:1"
"""Has a Python of this machine, too, and the C libraries that it and TensorFlow need."""
_INSTALLER = Path(__file__).parents[1] / "scripts" / "engine"

_LEFT_OUT = ("test", "tests", "site-packages", "idlelib", "ensurepip", "__pycache__", "config-*")
_MORE_LIBRARIES = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libnss_files.so.2", "libresolv.so.2"),
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
)
"""What TensorFlow's wheels expect of every machine, besides what Python itself needs."""

# Works without systemd, without overlayfs, and where limits must not be raised.
_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
_STORAGE = """\
[storage]
driver = "vfs"
runroot = "{run}"
graphroot = "{graph}"
"""


class Engine:
    """podman with directories of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        conf, storage = folder / "containers.conf", folder / "storage.conf"
        conf.write_text(_CONTAINERS)
        storage.write_text(_STORAGE.format(run=folder / "run", graph=folder / "graph"))
        self.settings = {"CONTAINERS_CONF": str(conf), "CONTAINERS_STORAGE_CONF": str(storage)}
        """The variables of its client."""

    def run(self, *words: str, stdin: bytes | None = None, check: bool = True) -> str:
        """Run the client; returns its stdout."""
        done = subprocess.run(
            ["podman", *words],
            input=stdin,
            capture_output=True,
            env={**os.environ, **self.settings},
            check=False,
            timeout=120,
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def make_image(self, root: Path, name: str = IMAGE, **env: str) -> str:
        """Make an image of a directory's content; returns its name."""
        changes = [f"--change=ENV {key}={value}" for key, value in env.items()]
        tar = subprocess.run(
            ["tar", "-C", str(root), "-c", "."], capture_output=True, check=True
        ).stdout
        self.run("import", *changes, "-", name, stdin=tar)
        return name

    def make_busybox_image(self) -> str:
        """Make :data:`IMAGE`."""
        programs = self.folder / "root" / "bin"
        programs.mkdir(parents=True)
        # A mounted file system needs its directory.
        for name in ("proc", "sys", "dev", "tmp", "etc"):
            (programs.parent / name).mkdir()
        busybox = shutil.which("busybox")
        assert busybox is not None
        shutil.copy(busybox, programs / "busybox")
        (programs / "busybox").chmod(0o755)
        applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
        for applet in applets.stdout.split():
            if applet != "busybox":
                (programs / applet).symlink_to("busybox")
        return self.make_image(programs.parent, PATH="/bin")

    def make_python_image(self, environment: Path) -> str:
        """Make :data:`PYTHON_IMAGE` with the interpreter of a venv, to which that can be mounted.

        Needs the directory from which :data:`IMAGE` was made.
        """
        root = self.folder / "root"
        _add_python(root, (environment / "bin" / "python").resolve())
        return self.make_image(root, PYTHON_IMAGE, PATH="/bin")

    def containers(self) -> list[str]:
        """Return the names of all containers."""
        return self.run("ps", "-a", "--format", "{{.Names}}").split()

    def wait_empty(self) -> None:
        """Return when there is no container any more."""
        eventually(lambda: not self.containers(), describe=lambda: f"no {self.containers()}")

    @contextmanager
    def daemon(self) -> Iterator[Mapping[str, str]]:
        """Serve podman's API on a socket; yields the variables of clients of that daemon.

        As with docker, containers are then no descendants of the client.
        """
        socket = self.folder / "podman.sock"
        served = subprocess.Popen(
            ["podman", "system", "service", "--time=0", f"unix://{socket}"],
            env={**os.environ, **self.settings},
            start_new_session=True,
        )
        try:
            eventually(socket.exists, describe="the daemon's socket")
            yield {"CONTAINER_HOST": f"unix://{socket}"}
        finally:
            served.terminate()
            served.wait(60)
            socket.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all containers and images."""
        self.run("rm", "-f", "-a", "-t", "0", check=False)
        self.run("rmi", "-f", "-a", check=False)
        # Its daemon keeps a process for five minutes after each exec.
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(FileNotFoundError, ProcessLookupError):
                words = path.read_bytes()
                if b"conmon" in words.split(b"\0")[0] and os.fsencode(self.folder) in words:
                    os.kill(int(path.parent.name), signal.SIGKILL)


def _add_python(root: Path, python: Path) -> None:
    """Copy an interpreter, its library and what both are linked with, under their own paths."""
    prefix = python.parents[1]
    (version,) = [each for each in (prefix / "lib").glob("python3.*") if each.is_dir()]
    here = root / prefix.relative_to("/")
    shutil.copytree(version, here / "lib" / version.name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (here / "bin").mkdir()
    shutil.copy(python, here / "bin" / python.name)
    for name in ("python", "python3"):
        (here / "bin" / name).symlink_to(python.name)
    more = [
        found for name in _MORE_LIBRARIES for found in Path("/usr/lib").glob(f"*-linux-gnu/{name}")
    ]
    modules = [python, *more, *(version / "lib-dynload").glob("*.so")]
    for library in {*more, *(each for module in modules for each in _linked_with(module))}:
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def _linked_with(module: Path) -> set[Path]:
    """The libraries that the loader finds for a module."""
    told = subprocess.run(["ldd", str(module)], capture_output=True, text=True, check=True).stdout
    words = (word for line in told.splitlines() for word in line.split())
    return {Path(word) for word in words if word.startswith("/") and Path(word).is_file()}


def install() -> None:
    """Have podman on this machine; fails with what the installer says."""
    with open("/tmp/.ytf-engine-lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([_INSTALLER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def started() -> Iterator[Engine]:
    """An engine that has :data:`IMAGE`; at the end no container may be left."""
    install()
    # A short path: podman refuses one of more than 50 characters when a container has ended,
    # and whoever waits for that then waits 20 s.
    with tempfile.TemporaryDirectory(prefix="ytf-engine-", dir="/tmp") as folder:
        engine = Engine(Path(folder))
        engine.make_busybox_image()
        try:
            yield engine
            engine.wait_empty()
        finally:
            engine.close()
