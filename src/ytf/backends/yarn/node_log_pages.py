"""URLs of the NodeManagers' web pages on which a container's logs can be read."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from ytf.backends.yarn.rm_client import RmClient
from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.records import NodeState

FindLogPage = Callable[[str, str], str | None]
"""Maps a node and a container to the page of the container's logs; None if it is not known."""


def no_log_page(node: str, container: str) -> str | None:
    """A ``FindLogPage`` that knows no page."""
    return None


def log_page_url(scheme: str, http_address: str, container: str, user: str) -> str:
    """The page of a container's logs at a NodeManager's web address."""
    return f"{scheme}://{http_address}/node/containerlogs/{container}/{quote(user, safe='')}"


def uses_https_only(conf: Configuration) -> bool:
    """Whether YARN's web pages, those of the nodes included, are served over https alone."""
    return conf.get_trimmed("yarn.http.policy") == "HTTPS_ONLY"


class NodeLogPages:
    """Implements ``FindLogPage`` for one user's containers on nodes that run.

    For clients of a job whose master does not answer. The first call asks the
    ResourceManager for the nodes.
    """

    def __init__(self, rm: RmClient, user: str) -> None:
        self._rm = rm
        self._user = user
        self._addresses: dict[str, str] | None = None

    def __call__(self, node: str, container: str) -> str | None:
        if self._addresses is None:
            running = self._rm.call(lambda rm: rm.nodes(NodeState.RUNNING))
            self._addresses = {str(each.node): each.http_address for each in running}
        address = self._addresses.get(node)
        if address is None:
            return None
        scheme = "https" if uses_https_only(self._rm.conf) else "http"
        return log_page_url(scheme, address, container, self._user)
