"""``Cluster``: the configuration, the user and the connections that all checks of YARN share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ytf.backends.checks import ANSWER_S
from ytf.backends.yarn.hdfs_layout import YarnHome, default_hdfs
from ytf.backends.yarn.rm_client import RmClient
from ytf.errors import SettingsError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.security.login import current_user
from ytf.storage.hdfs import HdfsFiles
from ytf.storage.hdfs_client import HdfsClient


class Cluster:
    """What is made from the environment, each when it is first asked for.

    A property raises what keeps it from being made: ``SettingsError`` for the most part.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    @cached_property
    def conf(self) -> Configuration:
        """The Hadoop configuration."""
        return Configuration.load(environ=self.environ)

    @property
    def directory(self) -> Path:
        """The directory of the configuration."""
        found = self.conf.directory
        if found is None:
            raise SettingsError("the Hadoop configuration was not read from a directory")
        return found

    @cached_property
    def user(self) -> str:
        """Who we are on the cluster."""
        return current_user(self.environ, secure=self.conf.secure)

    @cached_property
    def rm(self) -> RmClient:
        """The ResourceManager."""
        return RmClient(self.conf, self.user)

    @cached_property
    def files(self) -> HdfsFiles:
        """The default file system. Its calls end before the time of a check is over."""
        return HdfsFiles(self.hdfs_client(default_hdfs(self.conf)))

    @cached_property
    def home(self) -> YarnHome:
        """Our directories in HDFS."""
        return YarnHome.of(self.files, self.conf, self.user)

    def hdfs_client(self, url: str) -> HdfsClient:
        """A client of a NameNode or a nameservice."""
        return HdfsClient(url, self.conf, timeout_s=ANSWER_S, answer_s=ANSWER_S)
