"""Decides whether TensorFlow's plugin for ``hdfs://`` goes along with a job, with notes on it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ytf.backends.hdfs_access import hdfs_urls, tensorflow_groups
from ytf.packaging.hdfs_plugin import DISTRIBUTION
from ytf.specs.job import CLIENT, JobSpec
from ytf.starter.hdfs_variables import PLUGIN_VARIABLE, find_tensorflow_io


class PlannedHdfs:
    """How the TensorFlow programs of a resolved job open ``hdfs://``.

    ``installed`` is the directory of the plugin on this machine, if there is one.
    ``plugin`` is the same, or None if no program of the job is to use it.
    """

    def __init__(self, spec: JobSpec, installed: str | None) -> None:
        self._spec = spec
        self._groups = tensorflow_groups(spec)
        wanted = spec.hdfs_plugin and bool(self._groups)
        self.plugin = installed if wanted else None
        self._is_missing = wanted and installed is None

    def notes(self) -> Iterator[str]:
        """Sentences about programs that go without the plugin."""
        urls = hdfs_urls(self._spec)
        if self._is_missing and urls and not self._spec.libhdfs:
            yield (
                f"TensorFlow itself opens no {urls[0]}: the plugin that does goes along with jobs "
                f"if {DISTRIBUTION} is installed beside ytf (`pip install ./native` in ytf's "
                "source, or a wheel of it); for other programs, --stage_in and --stage_out copy "
                "files from and to HDFS"
            )
        if self.plugin is None:
            return
        for name in self._groups:
            group = self._spec.groups.get(name)
            own = {} if group is None else group.task_env
            environment = (group.env if group is not None else None) or self._spec.env
            packages = _tensorflow_io_of(environment)
            if PLUGIN_VARIABLE in self._spec.task_env | own:
                yield (
                    f"task_env sets {PLUGIN_VARIABLE} for {name}: ytf's plugin for hdfs:// is not "
                    "used there"
                )
            elif packages is not None and name != CLIENT:
                yield (
                    f"{packages} has tensorflow-io, which opens hdfs:// itself: ytf's plugin is "
                    f"not used in {name}"
                )


def _tensorflow_io_of(environment: str) -> str | None:
    """The packages with tensorflow-io in an environment that is shipped; of a node's own: None."""
    if environment == "node":
        return None
    return find_tensorflow_io(os.path.join(environment, "bin"))
