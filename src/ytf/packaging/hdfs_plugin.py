"""Finds TensorFlow's plugin for ``hdfs://`` beside ytf (ADR 30)."""

from __future__ import annotations

import importlib.util
import os

DISTRIBUTION = "ytf-tensorflow-hdfs"
FOLDER = "tensorflow-plugins"
"""The directory that TensorFlow is told to load, in the package and in the layer."""

_PACKAGE = "ytf_tensorflow_hdfs"


def find_plugin() -> str | None:
    """Return the directory of the plugin that is installed beside ytf; None if there is none.

    The package is not imported.
    """
    found = importlib.util.find_spec(_PACKAGE)
    for package in (found.submodule_search_locations or ()) if found is not None else ():
        folder = os.path.join(os.path.abspath(package), FOLDER)
        if os.path.isdir(folder) and any(name.endswith(".so") for name in os.listdir(folder)):
            return folder
    return None
