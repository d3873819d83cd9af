"""What ``registry`` of a job spec may say, and the paths that follow from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.errors import SpecError
from ytf.specs.registry import (
    ZooKeeperAddress,
    check_registry,
    encode_name,
    instance_path,
    kind_of,
    parse_address,
    resolve,
)

EMPTY: dict[str, str] = {}
CONF = {"hadoop.registry.zk.quorum": "a:1, b/hadoop", "hadoop.registry.zk.root": "/yarn/reg"}


@pytest.mark.parametrize(
    ("text", "servers", "chroot", "root"),
    [
        ("zk://h", ("h:2181",), "", "/registry"),
        ("zk://h:1,g:2", ("h:1", "g:2"), "", "/registry"),
        ("zk://h:1,[::1]:2/a/b/", ("h:1", "[::1]:2"), "/a/b", "/registry"),
        ("zk://h:1?root=/my/place/", ("h:1",), "", "/my/place"),
        ("zk://h:1/c?root=/", ("h:1",), "/c", ""),
    ],
)
def test_an_address_is_read_and_printed(
    text: str, servers: tuple[str, ...], chroot: str, root: str
) -> None:
    found = parse_address(text)
    assert found == ZooKeeperAddress(servers=servers, chroot=chroot, root=root)
    assert parse_address(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "", "zoo", "zk:/h:1", "zk://", "zk://h:1,", "zk://h:0", "zk://h:65536", "zk://h:1:2",
        "zk://user@h:1", "zk://h:1//a", "zk://h:1/a b", "zk://h:1/../a", "zk://h:1/%41",
        "zk://h:1?path=/a", "zk://h:1?root=a", "zk://h:1?root=/a/./b", "zk://h:1/é",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="registry"):
        check_registry(text)


def test_the_kinds() -> None:
    for text in ("rest", "zk", "zk://h"):
        check_registry(text)
    assert [kind_of(text) for text in ("rest", "zk", "zk://h")] == ["rest", "zk", "zk"]


def test_hadoops_configuration_fills_in_what_is_not_said() -> None:
    assert resolve("rest", CONF.get) == "rest"
    assert resolve("zk", CONF.get) == "zk://a:1,b:2181/hadoop?root=/yarn/reg"
    assert resolve("zk://c:3", CONF.get) == "zk://c:3?root=/yarn/reg"
    assert resolve("zk://c:3?root=/own", CONF.get) == "zk://c:3?root=/own"
    assert resolve("zk://c", EMPTY.get) == "zk://c:2181"
    with pytest.raises(SpecError, match=r"hadoop\.registry\.zk\.quorum is not set"):
        resolve("zk", EMPTY.get)
    with pytest.raises(SpecError, match=r"hadoop\.registry\.zk\.quorum: 'a:x' is not"):
        resolve("zk", {"hadoop.registry.zk.quorum": "a:x"}.get)


def test_the_path_is_that_of_the_seed() -> None:
    path = instance_path(
        parse_address("zk://h:1"), user="alice", name="TensorFlow", job="application_1_0001"
    )
    assert path == "/registry/users/alice/TensorFlow/application_1_0001"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("TensorFlow", "TensorFlow"),
        ("my job, größer", "my job, größer"),
        ("日本語", "日本語"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("tab\there", "tab%09here"),
        ("\x85", "%C2%85"),
        ("🐘", "%F0%9F%90%98"),
        ("\ue000", "%EE%80%80"),
        ("\udcff", "%ED%B3%BF"),
    ],
)
def test_names_with_any_characters(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded


def java_refuses(path: str) -> bool:
    """``PathUtils.validatePath`` of ZooKeeper 3.8, for one element."""
    units = [
        int.from_bytes(path.encode("utf-16-be", "surrogatepass")[i : i + 2], "big")
        for i in range(0, 2 * len(path.encode("utf-16-be", "surrogatepass")) // 2, 2)
    ]
    return path in (".", "..") or any(
        unit == 0
        or unit == ord("/")
        or 0 < unit <= 0x1F
        or 0x7F <= unit <= 0x9F
        or 0xD800 <= unit <= 0xF8FF
        or 0xFFF0 <= unit <= 0xFFFF
        for unit in units
    )


@given(st.text(st.characters(), min_size=1))
def test_zookeeper_takes_every_encoded_name(name: str) -> None:
    assert not java_refuses(encode_name(name))


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_names_stay_different(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)
