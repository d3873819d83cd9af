"""Where nodes show the logs of containers, for who has no master to ask."""

from __future__ import annotations

from collections.abc import Callable

from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.nodes import log_page
from ytf.hadoop.yarn.records import NodeState

PageOf = Callable[[str, str], str | None]
"""Where the logs of a container on a node are shown, if that is known."""


def nowhere(node: str, container: str) -> str | None:
    """For who does not know."""
    return None


class LogPages:
    """Implements ``PageOf`` for one user's containers, as far as their nodes run.

    Which nodes there are is asked when it is first used.
    """

    def __init__(self, rm: ResourceManager, user: str) -> None:
        self._rm = rm
        self._user = user
        self._addresses: dict[str, str] | None = None

    def __call__(self, node: str, container: str) -> str | None:
        # It comes with the door of the master's page, which no other client needs.
        from ytf.backends.yarn.proxy import is_tls

        if self._addresses is None:
            running = self._rm.ask(lambda rm: rm.nodes(NodeState.RUNNING))
            self._addresses = {str(each.node): each.http_address for each in running}
        address = self._addresses.get(node)
        if address is None:
            return None
        scheme = "https" if is_tls(self._rm.conf) else "http"
        return log_page(scheme, address, container, self._user)
