"""The cluster spec as a file in the working directory: ``YTF_CLUSTER_SPEC_FILE``."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.starter.situation import ClusterSpec


class SpecFile:
    """Always holds one whole spec: ``{"generation", "revision", "members"}``."""

    def __init__(self, container: str) -> None:
        # The container is in the name because several clients may share a directory.
        name = ".ytf-cluster-spec-%s.json" % container.replace("/", "_")
        self.path = os.path.join(os.getcwd(), name)

    def write(self, spec: ClusterSpec) -> None:
        """Replace what the file holds, at once and as a whole. Raises ``OSError``."""
        value = {
            "generation": spec.generation,
            "revision": spec.revision,
            "members": spec.members,
        }
        draft = self.path + ".new"
        try:
            with open(draft, "w", encoding="utf-8") as file:
                json.dump(value, file)
            os.replace(draft, self.path)
        except OSError:
            _remove(draft)
            raise

    def remove(self) -> None:
        """Leave nothing behind."""
        _remove(self.path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # it goes with the working directory
