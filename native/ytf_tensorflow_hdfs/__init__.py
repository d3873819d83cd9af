"""The file-system plugin that lets TensorFlow open ``hdfs://`` and ``viewfs://``.

There is nothing to import: TensorFlow loads the library itself, from the
directory that ``TF_PLUGGABLE_DEVICE_LIBRARY_PATH`` names.
"""

from __future__ import annotations

import os

PLUGIN_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensorflow-plugins")
"""The value for ``TF_PLUGGABLE_DEVICE_LIBRARY_PATH``."""
