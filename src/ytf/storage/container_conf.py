"""The Hadoop configuration that ytf's processes use in a container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ytf.hadoop.conf import FILES, Configuration
from ytf.starter.config import CONTAINER_DIR

CONF_DIR = f"{CONTAINER_DIR}/conf"
"""The directory of the submitter's Hadoop configuration in a container of YARN."""


def container_configuration(environ: Mapping[str, str]) -> Configuration:
    """The node's own configuration if it has one, else the submitter's. For YARN."""
    named = environ.get("HADOOP_CONF_DIR")
    if named and any(os.access(Path(named, name), os.R_OK) for name in FILES):
        return Configuration.load(Path(named), environ=environ)
    return Configuration.load(Path.cwd() / CONF_DIR, environ=environ)


def helper_configuration(environ: Mapping[str, str]) -> Configuration:
    """The configuration of a helper process, on any backend.

    On the local backend it is the submitter's, as the environment names it. Without one
    only URLs that name a NameNode can be opened.
    """
    if Path(CONF_DIR).is_dir():
        return container_configuration(environ)
    if Configuration.find(environ) is None:
        return Configuration.of({}, environ)
    return Configuration.load(environ=environ)
