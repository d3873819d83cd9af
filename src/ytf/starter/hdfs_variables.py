"""Makes the variables with which a program opens ``hdfs://``: Hadoop's configuration, the plugin.

The plugin is TensorFlow's (ADR 29). TensorFlow loads it when it is imported,
from the directory that a variable names. Where tensorflow-io is installed, that
opens ``hdfs://`` itself, and one of the two would refuse to load.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, Mapping, Optional

PLUGIN_VARIABLE = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
CONF_VARIABLE = "HADOOP_CONF_DIR"

_CONF_FILES = ("core-site.xml", "hdfs-site.xml")
_TENSORFLOW_IO = ("tensorflow_io-", "tensorflow_io_nightly-")


def conf_variables(inherited: Mapping[bytes, bytes], conf: Optional[str]) -> Dict[str, str]:
    """Return the variable that names Hadoop's configuration, if the program has none yet.

    ``conf`` is the directory of the submitter's configuration in this container,
    if there is one. The node's own goes before it.
    """
    named = os.fsdecode(inherited.get(CONF_VARIABLE.encode(), b""))
    if conf is None or _has_configuration(named) or not _has_configuration(conf):
        return {}
    return {CONF_VARIABLE: os.path.abspath(conf)}


def plugin_variables(inherited: Mapping[bytes, bytes], plugin: Optional[str]) -> Dict[str, str]:
    """Return the variable with which TensorFlow loads the plugin in the directory ``plugin``.

    None if the program's variables name another one, which the user or the node has chosen.
    """
    if plugin is None or inherited.get(PLUGIN_VARIABLE.encode()):
        return {}
    return {PLUGIN_VARIABLE: os.path.abspath(plugin)}


def find_tensorflow_io(path: str) -> Optional[str]:
    """Return the directory in which the first Python on a ``PATH`` has tensorflow-io, if it does.

    A look into a few directories: no program is run.
    """
    for name in ("python", "python3"):
        for folder in path.split(os.pathsep):
            program = os.path.join(folder, name)
            if folder and os.access(program, os.X_OK):
                for packages in _package_folders(program):
                    if any(each.startswith(_TENSORFLOW_IO) for each in os.listdir(packages)):
                        return packages
                break
    return None


def _has_configuration(folder: str) -> bool:
    return bool(folder) and any(
        os.access(os.path.join(folder, name), os.R_OK) for name in _CONF_FILES
    )


def _package_folders(python: str) -> Iterator[str]:
    """Yield the directories of packages that belong to an interpreter, by the usual layouts."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    prefixes = [prefix]
    if not os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        # The name on PATH may be a link to an interpreter elsewhere.
        prefixes.append(os.path.dirname(os.path.dirname(os.path.realpath(python))))
        if "/usr" in prefixes:
            prefixes.append("/usr/local")  # where Debian's Python has what pip installs
    for base in dict.fromkeys(prefixes):
        library = os.path.join(base, "lib")
        try:
            versions = [name for name in os.listdir(library) if name.startswith("python3")]
        except OSError:
            continue
        for version in versions:
            for kind in ("site-packages", "dist-packages"):
                folder = os.path.join(library, version, kind)
                if os.access(folder, os.R_OK | os.X_OK) and os.path.isdir(folder):
                    yield folder
