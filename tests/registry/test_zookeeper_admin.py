"""What commands do in ZooKeeper, on nodes of this process: trees that others have made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kazoo.exceptions import (
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

from ytf.backends.registry_access import RegistryLeftovers
from ytf.errors import RefusedError
from ytf.registry import zookeeper_admin
from ytf.registry.zookeeper_admin import ForeignNodesError, check_access, remove_job_znodes
from ytf.specs.ids import JobId
from ytf.specs.registry import parse_address

REGISTRY = "zk://memory:2181"
ADDRESS = parse_address(REGISTRY)
JOB = "/registry/users/u/n/j"


class Node(dict[str, "Node"]):
    """A node: those below it by their names."""


class Client:
    """As much of kazoo's client as commands need.

    Below the paths of ``closed`` nobody may make or remove a node; the lists of children of
    those of ``unreadable`` are longer than a client reads.
    """

    def __init__(self) -> None:
        self.root = Node()
        self.closed: set[str] = set()
        self.unreadable: set[str] = set()
        self.handler = SimpleNamespace(has_refused=False)
        self.calls = 0

    def make(self, path: str) -> Node:
        node = self.root
        for name in path.strip("/").split("/"):
            node = node.setdefault(name, Node())
        return node

    def _find(self, path: str) -> Node:
        self.calls += 1
        node = self.root
        for name in filter(None, path.split("/")):
            if name not in node:
                raise NoNodeError
            node = node[name]
        return node

    def exists(self, path: str) -> object:
        try:
            self._find(path)
        except NoNodeError:
            return None
        return object()

    def create(self, path: str, data: bytes, **more: object) -> str:
        above, _, name = path.rpartition("/")
        node = self._find(above)
        if above in self.closed:
            raise NoAuthError
        if name in node:
            raise NodeExistsError
        node[name] = Node()
        return path

    def delete(self, path: str, recursive: bool = False) -> None:
        # As kazoo's own does.
        if recursive:
            for child in self.get_children(path):
                self.delete(f"{path}/{child}", recursive=True)
        above, _, name = path.rpartition("/")
        if above in self.closed:
            raise NoAuthError
        if self._find(path):
            raise NotEmptyError
        del self._find(above)[name]

    def get_children(self, path: str) -> list[str]:
        if path in self.unreadable:
            self.handler.has_refused = True
            raise ConnectionLoss
        return list(self._find(path))


@pytest.fixture
def zk(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()

    @contextlib.contextmanager
    def session(servers: object) -> Iterator[Client]:
        yield client

    monkeypatch.setattr(zookeeper_admin, "_session", session)
    return client


def leftovers(told: list[str]) -> RegistryLeftovers:
    return RegistryLeftovers(told.append)


def remove(found: RegistryLeftovers, job: str) -> object:
    return found.remove(REGISTRY, user="u", name="n", job=JobId(job))


def test_a_tree_is_removed(zk: Client) -> None:
    for number in range(3):
        zk.make(f"{JOB}/components/c{number}/{number}")
    zk.make("/registry/users/u/n/other")
    assert remove_job_znodes(ADDRESS, JOB)
    assert list(zk.make("/registry/users/u/n")) == ["other"]
    assert not remove_job_znodes(ADDRESS, JOB)


def test_a_deep_tree_of_others_is_removed(zk: Client) -> None:
    """Deeper than Python recurses."""
    zk.make(JOB + "/a" * 1500)
    assert remove_job_znodes(ADDRESS, JOB)
    assert "n" not in zk.make("/registry/users/u")


def test_a_wide_tree_of_others_ends_at_the_limit(
    zk: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_admin, "MOST_NODES", 100)
    node = zk.make(f"{JOB}/theirs")
    for number in range(20):
        node[f"{number}"] = Node({f"{each}": Node() for each in range(20)})
    with pytest.raises(ForeignNodesError, match=f"{JOB} more than 100 znodes below it"):
        remove_job_znodes(ADDRESS, JOB)
    assert zk.calls < 1000
    for _ in range(10):  # each command removes some
        with contextlib.suppress(ForeignNodesError):
            remove_job_znodes(ADDRESS, JOB)
    assert zk.exists(JOB) is None


def test_names_count_too(zk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_admin, "MOST_CHARACTERS", 100)
    zk.make(f"{JOB}/{'x' * 200}")
    with pytest.raises(ForeignNodesError, match=f"somebody else has given {JOB} more than"):
        remove_job_znodes(ADDRESS, JOB)


def test_what_others_put_there_keeps_neither_the_next_job_nor_files(zk: Client) -> None:
    zk.make(f"{JOB}/theirs")
    zk.make("/registry/users/u/n/k/components")
    zk.unreadable.add(JOB)
    told: list[str] = []
    found = leftovers(told)
    assert remove(found, "j") is None
    assert remove(found, "k") is not None
    assert list(zk.make("/registry/users/u/n")) == ["j"]
    assert not found.failed, "the staging directories may go"
    assert len(told) == 1
    assert f"somebody else has given {JOB} too long a list of znodes below it" in told[0]


def test_rights_that_others_have_set_keep_no_files(zk: Client) -> None:
    zk.make(f"{JOB}/components")
    zk.closed.add(JOB)
    told: list[str] = []
    found = leftovers(told)
    assert remove(found, "j") is None
    assert not found.failed
    assert f"somebody else has given {JOB} rights that let nobody remove it" in told[0]


def test_a_connection_that_is_lost_is_no_fault_of_others(
    zk: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    zk.make(f"{JOB}/components")

    def lose(path: str) -> list[str]:
        raise ConnectionLoss

    monkeypatch.setattr(zk, "get_children", lose)
    with pytest.raises(ConnectionLoss):  # which a real session makes an UnreachableError of
        remove_job_znodes(ADDRESS, JOB)


def test_a_user_whose_node_is_somebody_elses_is_told_the_way_out(zk: Client) -> None:
    zk.make("/registry/users/u")
    zk.closed.add("/registry/users/u")
    with pytest.raises(RefusedError, match="you may not make znodes below /registry/users/u") as no:
        check_access(ADDRESS, user="u", name="n")
    assert no.value.hint is not None
    assert "--registry rest runs the job without ZooKeeper" in no.value.hint
