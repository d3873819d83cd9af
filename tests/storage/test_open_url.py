"""What viewfs:// URLs stand for."""

from __future__ import annotations

import pytest

from ytf.errors import SettingsError
from ytf.hadoop.conf import Configuration
from ytf.storage.open_url import open_url, resolve_viewfs

TABLE = {
    "fs.defaultFS": "viewfs://all/",
    "fs.viewfs.mounttable.all.link./data": "hdfs://one:8020/big/data/",
    "fs.viewfs.mounttable.all.link./data/new": "hdfs://two:8020/new",
    "fs.viewfs.mounttable.all.link./odd": "s3a://bucket/odd",
    "fs.viewfs.mounttable.more.link./x": "hdfs://one:8020/x",
    "fs.viewfs.mounttable.more.linkFallback": "hdfs://two:8020/",
}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("viewfs://all/data", "hdfs://one:8020/big/data"),
        ("viewfs:///data/a b/*.csv", "hdfs://one:8020/big/data/a b/*.csv"),
        ("viewfs://all/data/new/x", "hdfs://two:8020/new/x"),
        ("viewfs://all/data/newer", "hdfs://one:8020/big/data/newer"),
        ("viewfs://more/x/y", "hdfs://one:8020/x/y"),
        ("viewfs://more/y", "hdfs://two:8020/y"),
    ],
)
def test_mounts(url: str, found: str) -> None:
    conf = Configuration.of(TABLE)
    assert resolve_viewfs(url, conf) == found
    files, path = open_url(url, conf)
    assert files.uri(path) == found


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("viewfs://all/user", "in no mount"),
        ("viewfs://other/data", "in no mount"),
        ("viewfs://all/odd/x", "not an hdfs:// URL"),
    ],
)
def test_what_is_not_mounted(url: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        resolve_viewfs(url, Configuration.of(TABLE))
