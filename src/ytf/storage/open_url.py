"""Opens the file system that a URL or a path names."""

from __future__ import annotations

from urllib.parse import unquote

from ytf.errors import SettingsError
from ytf.hadoop.conf import Configuration
from ytf.storage.files import ReplacingFiles
from ytf.storage.hdfs import HdfsFiles, path_of
from ytf.storage.local_files import LocalFiles
from ytf.storage.viewfs import SCHEME, resolve_viewfs

_FILE = "file://"


def open_url(url: str, conf: Configuration) -> tuple[ReplacingFiles, str]:
    """Return the file system of a URL or an absolute path, and the path in it.

    No connection is made yet. Of ``hdfs://`` URLs nothing is unquoted, as in Hadoop.
    """
    if url.startswith(SCHEME):
        url = resolve_viewfs(url, conf)
    if url.startswith("hdfs://"):
        return HdfsFiles.open(url, conf), path_of(url)
    path = unquote(url.removeprefix(_FILE)) if url.startswith(_FILE) else url
    if not path.startswith("/"):
        raise SettingsError(f"{url} is neither an hdfs:// URL nor an absolute path")
    return LocalFiles(), path
