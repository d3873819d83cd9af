"""Where the services are, from real-life configurations."""

from __future__ import annotations

import pytest

from ytf.errors import SettingsError
from ytf.hadoop.address import Address, parse_address
from ytf.hadoop.addresses import RmService, nameservices, rm_addresses, rm_ids
from ytf.hadoop.conf import Configuration
from ytf.hadoop.rpc.settings import master_patience, rpc_settings

HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
    "yarn.resourcemanager.hostname.rm1": "one",
    "yarn.resourcemanager.hostname.rm2": "two",
    "yarn.resourcemanager.address.rm2": "${yarn.resourcemanager.hostname.rm2}:9999",
}


@pytest.mark.parametrize(
    ("text", "default", "address"),
    [
        ("rm:8032", None, Address("rm", 8032)),
        (" rm ", 8032, Address("rm", 8032)),
        ("[::1]:80", None, Address("::1", 80)),
        ("127.0.0.1:1", 5, Address("127.0.0.1", 1)),
    ],
)
def test_addresses_are_read(text: str, default: int | None, address: Address) -> None:
    assert parse_address(text, default) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["", "rm", "rm:", "rm:x", "rm:0", "rm:70000", "a:b:1", "a b:1"])
def test_what_is_not_an_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_address(text)


def test_a_single_resourcemanager() -> None:
    conf = Configuration.of({"yarn.resourcemanager.hostname": "rm"})
    assert rm_ids(conf) == []
    assert rm_addresses(conf, RmService.CLIENT) == [Address("rm", 8032)]
    assert rm_addresses(conf, RmService.SCHEDULER) == [Address("rm", 8030)]
    conf = Configuration.of({"yarn.resourcemanager.address": "x:1"})
    assert rm_addresses(conf, RmService.CLIENT) == [Address("x", 1)]
    assert rm_addresses(conf, RmService.WEB) == [Address("0.0.0.0", 8088)]


def test_a_highly_available_pair() -> None:
    conf = Configuration.of(HA)
    assert rm_ids(conf) == ["rm1", "rm2"]
    assert rm_addresses(conf, RmService.CLIENT) == [Address("one", 8032), Address("two", 9999)]
    assert rm_addresses(conf, RmService.ADMIN) == [Address("one", 8033), Address("two", 8033)]


def test_broken_settings_are_named() -> None:
    with pytest.raises(SettingsError, match="rm-ids names none"):
        rm_ids(Configuration.of({"yarn.resourcemanager.ha.enabled": "true"}))
    incomplete = {key: value for key, value in HA.items() if "hostname.rm1" not in key}
    with pytest.raises(SettingsError, match=r"does not set yarn.resourcemanager.hostname.rm1"):
        rm_addresses(Configuration.of(incomplete), RmService.CLIENT)
    wrong = Configuration.of({"yarn.resourcemanager.address": "x:y"})
    with pytest.raises(SettingsError, match=r"address: 'x:y' is not host:port"):
        rm_addresses(wrong, RmService.CLIENT)


def test_nameservices() -> None:
    conf = Configuration.of(
        {
            "dfs.nameservices": "ha,plain",
            "dfs.ha.namenodes.ha": "nn1,nn2",
            "dfs.namenode.rpc-address.ha.nn1": "a:8020",
            "dfs.namenode.rpc-address.ha.nn2": "b",
            "dfs.namenode.rpc-address.plain": "c:9000",
        }
    )
    assert nameservices(conf) == {
        "ha": [Address("a", 8020), Address("b", 8020)],
        "plain": [Address("c", 9000)],
    }
    assert nameservices(Configuration.of({})) == {}


def test_settings_of_the_cluster_are_kept() -> None:
    conf = Configuration.of(
        {
            "ipc.client.rpc-timeout.ms": "0",
            "ipc.client.connect.timeout": "5s",
            "ipc.maximum.response.length": "1m",
            "yarn.resourcemanager.connect.max-wait.ms": "1000",
        }
    )
    settings = rpc_settings(conf, caller="ytf_job")
    assert settings.connect_timeout_s == 5
    assert settings.call_timeout_s == 120
    assert settings.max_response_bytes == 2**20
    assert settings.caller == "ytf_job"
    assert master_patience(conf).total_s == 1
