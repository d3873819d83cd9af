"""Reads and writes a ZooKeeper as any other program would: plain kazoo, nothing of ytf's."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ytf.testing.waiting import eventually

_START_S = 60


class Reader:
    """One client. ``root`` is where the jobs of the user who runs the tests are."""

    def __init__(self, client: KazooClient, root: str = "/registry") -> None:
        self.client = client
        self.user = f"{root}/users/{getpass.getuser()}"

    def instance(self, job: str, name: str = "TensorFlow") -> str:
        return f"{self.user}/{name}/{job}"

    # Servers that a test restarts may take longer than a session lasts, also one of this client.

    def exists(self, path: str) -> Any:
        """What kazoo tells of a node; None if there is none."""
        return self.client.retry(self.client.exists, path)

    def get(self, path: str) -> Any:
        """The data of a node, and what kazoo tells of it."""
        return self.client.retry(self.client.get, path)

    def document(self, path: str) -> dict[str, Any]:
        """The JSON in a node; empty if there is none."""
        try:
            data, _ = self.get(path)
        except NoNodeError:
            return {}
        return dict(json.loads(data)) if data else {}

    def children(self, path: str) -> list[str]:
        try:
            return sorted(self.client.retry(self.client.get_children, path))
        except NoNodeError:
            return []

    def components(self, instance: str) -> dict[str, dict[str, Any]]:
        """The documents of a job's components by task, ``worker:0``."""
        found = {}
        for container in self.children(f"{instance}/components"):
            document = self.document(f"{instance}/components/{container}")
            if document:
                task = f"{document['task_job_name']}:{document['task_job_index']}"
                found[task] = {**document, "container": container}
        return found

    def wait_components(self, instance: str, *tasks: str) -> dict[str, dict[str, Any]]:
        """Wait until exactly these tasks have a component."""
        eventually(
            lambda: set(self.components(instance)) == set(tasks),
            60,
            lambda: f"components of {tasks}, not {self.components(instance)}",
        )
        return self.components(instance)

    def wait_empty(self) -> None:
        """Wait until no job has left anything."""
        eventually(
            lambda: not self.children(self.user),
            60,
            lambda: f"nothing below {self.user}: {self.children(self.user)}",
        )


@contextmanager
def reading(servers: Sequence[str], root: str = "/registry") -> Iterator[Reader]:
    """A client of these servers, connected for as long as this lasts."""
    client = KazooClient(
        ",".join(servers),
        connection_retry={"max_tries": -1, "max_delay": 1.0},
        command_retry={"max_tries": -1, "max_delay": 1.0, "deadline": 60},
    )
    client.start(_START_S)
    try:
        yield Reader(client, root)
    finally:
        client.stop()
        client.close()
