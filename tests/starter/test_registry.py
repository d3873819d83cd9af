"""Which registry a starter connects to."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from ytf.specs.registry import KINDS
from ytf.starter.master_locator import MasterLocator
from ytf.starter.registry import REGISTRIES, make_registry_client
from ytf.starter.rest_registry import RestRegistryClient
from ytf.starter.zookeeper_registry import ZooKeeperRegistryClient
from ytf.wire.signing import Signer

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.registry import RegistryClient


def make(name: str) -> RegistryClient:
    inbox: SimpleQueue[InboxMessage] = SimpleQueue()
    return make_registry_client(
        name,
        locator=MasterLocator("http://a:1", None),
        signer=Signer(b"s"),
        inbox=inbox,
        job="j",
        task="worker:0",
        container="c1",
        heartbeat_timeout_s=30.0,
        condition=dict,
    )


def test_starters_know_every_registry_that_a_job_may_name() -> None:
    assert sorted(REGISTRIES) == sorted(KINDS)
    for name in REGISTRIES:
        make(name)


def test_the_rest_registry_is_the_masters_own() -> None:
    assert isinstance(make("rest"), RestRegistryClient)


def test_zookeeper_is_the_starters_own_client_of_it() -> None:
    assert isinstance(make("zk"), ZooKeeperRegistryClient)


def test_an_unknown_registry_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no registry 'zookeeper': ytf knows rest, zk"):
        make("zookeeper")
