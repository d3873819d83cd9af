"""Finds what programs need that read HDFS with Hadoop's libhdfs: its jars, Java, libraries.

Imported only by tasks of a job with ``libhdfs``: asking ``hadoop`` for its jars
starts a JVM and takes about a second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from ytf.starter.program_env import LONGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional

_HOMES = ("HADOOP_HDFS_HOME", "HADOOP_HOME", "HADOOP_COMMON_HOME")
_COMMAND_S = 60.0
_LONGEST_REASON = 500
_JVM_FOLDERS = (
    "lib/server",
    "jre/lib/server",
    "lib/amd64/server",
    "jre/lib/amd64/server",
    "jre/lib/aarch64/server",
)
"""Where libjvm.so is below JAVA_HOME: since Java 9, and in Java 8."""
_LIBRARY = "libhdfs.so"
_LOADER_CACHE = "/etc/ld.so.cache"
_LOADER_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


class LibhdfsError(Exception):
    """The node lacks something that libhdfs needs; the message says what."""


class LibhdfsSearch:
    """Looks for what libhdfs needs on this node. Construct it, then call ``finish``.

    ``environ`` are the program's variables so far; the configuration that its
    HADOOP_CONF_DIR names is the one in its CLASSPATH. The constructor starts the
    command ``hadoop``, unless the program has a CLASSPATH, and raises
    ``LibhdfsError`` if something is missing. With ``in_image`` the library itself
    may be in the program's docker image, and is not looked for.
    """

    def __init__(self, environ: Mapping[str, str], *, in_image: bool = False) -> None:
        hadoop = _find_hadoop(environ)
        home = environ.get("HADOOP_HDFS_HOME") or environ.get("HADOOP_HOME") or _prefix(hadoop)
        java = environ.get("JAVA_HOME") or _find_java(environ)
        folders = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        folders += [_find_jvm(java), *_native_folders(environ, hadoop)]
        if not in_image:
            _check_library([*folders, environ.get("ARROW_LIBHDFS_DIR", "")])
        self._found = {
            "CLASSPATH": environ.get("CLASSPATH", ""),
            "JAVA_HOME": java,
            "HADOOP_HDFS_HOME": home,
            "LD_LIBRARY_PATH": os.pathsep.join(dict.fromkeys(filter(None, folders))),
        }
        self._argv = [hadoop, "classpath", "--glob"]
        self._process: Optional[subprocess.Popen[bytes]] = None
        if not self._found["CLASSPATH"]:
            self._process = self._start({**environ, "JAVA_HOME": java})

    def finish(self) -> Dict[str, str]:
        """Return CLASSPATH, JAVA_HOME, HADOOP_HDFS_HOME and LD_LIBRARY_PATH for the program.

        What it has of the first three stays, and what it has in LD_LIBRARY_PATH
        stays in front. Waits for ``hadoop``. Raises ``LibhdfsError``.
        """
        if self._process is not None:
            self._found["CLASSPATH"] = self._classpath(self._process)
        return self._found

    def kill(self) -> None:
        """End ``hadoop``, if it still runs, and what it has started."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _start(self, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._argv,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as exc:
            raise LibhdfsError("the command hadoop fails: %s" % exc) from exc

    def _classpath(self, process: subprocess.Popen[bytes]) -> str:
        try:
            stdout, stderr = process.communicate(timeout=_COMMAND_S)
        except subprocess.TimeoutExpired as exc:
            self.kill()
            text = "%s has not ended within %.0f s" % (" ".join(self._argv), _COMMAND_S)
            raise LibhdfsError(text) from exc
        found = os.fsdecode(stdout).strip()
        if process.returncode != 0 or not found:
            # Hadoop's script tells some of its errors on stdout.
            said = stderr.decode("utf-8", "replace").strip() or found or "it printed nothing"
            raise LibhdfsError(
                "%s ended with %d: %s"
                % (
                    " ".join(self._argv),
                    process.returncode,
                    said.splitlines()[-1][:_LONGEST_REASON],
                )
            )
        if len(os.fsencode(found)) + len("CLASSPATH=") + 1 > LONGEST:
            raise LibhdfsError(
                "the jars of Hadoop make a CLASSPATH of %d bytes, and Linux passes %d to a program"
                % (len(found), LONGEST)
            )
        return found


def libhdfs_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return what a :class:`LibhdfsSearch` finds. Raises ``LibhdfsError``."""
    search = LibhdfsSearch(environ)
    try:
        return search.finish()
    finally:
        search.kill()


def _find_hadoop(environ: Mapping[str, str]) -> str:
    folders = [os.path.join(environ[name], "bin") for name in _HOMES if environ.get(name)]
    found = _find_command("hadoop", folders + environ.get("PATH", "").split(os.pathsep))
    if found is None:
        raise LibhdfsError(
            "there is no command hadoop, neither on the PATH nor in HADOOP_HOME/bin; --libhdfs is "
            "for nodes with Hadoop"
        )
    # Hadoop's script looks for its other files beside itself, and does not follow a link to it.
    real = os.path.realpath(found)
    return real if os.path.basename(real) == os.path.basename(found) else found


def _find_java(environ: Mapping[str, str]) -> str:
    java = _find_command("java", environ.get("PATH", "").split(os.pathsep))
    if java is None:
        raise LibhdfsError("JAVA_HOME is not set, and there is no command java on the PATH")
    return _prefix(java)


def _find_command(name: str, folders: List[str]) -> Optional[str]:
    for folder in filter(None, folders):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def _prefix(command: str) -> str:
    """Return the directory above ``bin`` of a command, to which links on the PATH may lead."""
    return os.path.dirname(os.path.dirname(os.path.realpath(command)))


def _native_folders(environ: Mapping[str, str], hadoop: str) -> List[str]:
    """Return where this Hadoop has native libraries, for LD_LIBRARY_PATH.

    Packages of distributions have HDFS in a directory of its own, which
    HADOOP_HDFS_HOME names, and native libraries in that of Hadoop's common parts.
    Cloudera's have libhdfs in a ``lib64``: beside the ``lib`` that contains both.
    """
    homes = [environ[name] for name in _HOMES if environ.get(name)] + [_prefix(hadoop)]
    folders = [os.path.join(home, "lib", "native") for home in homes]
    for home in homes:
        for prefix in (home, os.path.dirname(os.path.dirname(home))):
            folder = os.path.join(prefix, "lib64")
            if folder not in _LOADER_FOLDERS and os.path.exists(os.path.join(folder, _LIBRARY)):
                folders.append(folder)
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _check_library(folders: List[str]) -> None:
    """Raise ``LibhdfsError`` if a program that looks in these directories finds no libhdfs.

    TensorFlow 2.5 does not fail without it if it first makes a directory: it tries for ever.
    """
    for folder in (*filter(None, folders), *_LOADER_FOLDERS):
        if os.path.exists(os.path.join(folder, _LIBRARY)):
            return
    try:
        with open(_LOADER_CACHE, "rb") as file:
            if b"/%s\0" % _LIBRARY.encode() in file.read():
                return
    except OSError:
        pass
    raise LibhdfsError(
        "there is no %s in %s, nor where the system has its libraries: Hadoop is here without its "
        "native libraries" % (_LIBRARY, ", ".join(dict.fromkeys(filter(None, folders))))
    )


def _find_jvm(java: str) -> str:
    # /usr/bin/java of Java 8 leads to a jre below JAVA_HOME.
    for base in (java, os.path.dirname(java)):
        for below in _JVM_FOLDERS:
            folder = os.path.join(base, below)
            if os.path.exists(os.path.join(folder, "libjvm.so")):
                return folder
    raise LibhdfsError("the Java in %s has no libjvm.so" % java)
