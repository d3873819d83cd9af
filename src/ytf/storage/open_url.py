"""Opens the file system that a URL or a path names.

What a ``viewfs://`` URL stands for is in the mount table of Hadoop's configuration.
``fs.viewfs.mounttable.<name>.link.<path>`` is the ``hdfs://`` URL that is seen at a path;
the longest path that is a beginning of the URL's counts. ``linkFallback`` is for all
that no link fits. The mount table of ``viewfs:///`` is that of ``fs.defaultFS``.
"""

from __future__ import annotations

from urllib.parse import unquote

from ytf.errors import SettingsError
from ytf.hadoop.conf import Configuration
from ytf.storage.files import ReplacingFiles
from ytf.storage.hdfs import HdfsFiles, path_of
from ytf.storage.local_files import LocalFiles

_FILE = "file://"
_VIEWFS = "viewfs://"
_TABLE = "fs.viewfs.mounttable."


def open_url(
    url: str, conf: Configuration, *, answer_s: float | None = None
) -> tuple[ReplacingFiles, str]:
    """Return the file system of a URL or an absolute path, and the path in it.

    No connection is made yet. Of ``hdfs://`` URLs nothing is unquoted, as in Hadoop.
    ``answer_s``: see ``HdfsClient``.
    """
    if url.startswith(_VIEWFS):
        url = resolve_viewfs(url, conf)
    if url.startswith("hdfs://"):
        return HdfsFiles.open(url, conf, answer_s=answer_s), path_of(url)
    path = unquote(url.removeprefix(_FILE)) if url.startswith(_FILE) else url
    if not path.startswith("/"):
        raise SettingsError(f"{url} is neither an hdfs:// URL nor an absolute path")
    return LocalFiles(), path


def resolve_viewfs(url: str, conf: Configuration) -> str:
    """Return the ``hdfs://`` URL of a ``viewfs://`` URL; raises ``SettingsError`` if none fits."""
    name, slash, rest = url.removeprefix(_VIEWFS).partition("/")
    path = slash + rest
    if not name:
        default = conf.get_trimmed("fs.defaultFS") or ""
        name = (
            default.removeprefix(_VIEWFS).partition("/")[0] if default.startswith(_VIEWFS) else ""
        )
    table = f"{_TABLE}{name or 'default'}."
    links = {
        key.removeprefix(f"{table}link.").rstrip("/"): conf.get_trimmed(key) or ""
        for key in conf.names()
        if key.startswith(f"{table}link./")
    }
    fallback = conf.get_trimmed(f"{table}linkFallback")
    fitting = [link for link in links if path == link or path.startswith(f"{link}/")]
    if fitting:
        link = max(fitting, key=len)
        target, below = links[link], path[len(link) :]
    elif fallback:
        target, below = fallback, path
    else:
        known = ", ".join(sorted(link or "/" for link in links)) or "nothing"
        raise SettingsError(
            f"{url} is in no mount of Hadoop's configuration",
            hint=f"mount table {name or 'default'} has {known}",
        )
    if not target.startswith("hdfs://"):
        raise SettingsError(f"{url} is mounted from {target}, which is not an hdfs:// URL")
    return target.rstrip("/") + below
