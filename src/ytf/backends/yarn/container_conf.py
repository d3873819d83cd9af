"""The Hadoop configuration that ytf's processes use in a container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ytf.hadoop.conf import FILES, Configuration
from ytf.starter.config import CONTAINER_DIR

CONF_DIR = f"{CONTAINER_DIR}/conf"
"""The directory of the submitter's Hadoop configuration in a container."""


def container_configuration(environ: Mapping[str, str]) -> Configuration:
    """The node's own configuration if it has one, else the submitter's."""
    named = environ.get("HADOOP_CONF_DIR")
    if named and any(os.access(Path(named, name), os.R_OK) for name in FILES):
        return Configuration.load(Path(named), environ=environ)
    return Configuration.load(Path.cwd() / CONF_DIR, environ=environ)
