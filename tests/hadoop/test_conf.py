"""Configuration as Hadoop reads it: order, finals, variables, types, addresses."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from ytf.errors import SettingsError
from ytf.hadoop.conf import Address, Configuration, RmService, parse_address, rm_addresses
from ytf.hadoop.security.acls import AccessList

HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
    "yarn.resourcemanager.hostname.rm1": "one",
    "yarn.resourcemanager.hostname.rm2": "two",
    "yarn.resourcemanager.address.rm2": "${yarn.resourcemanager.hostname.rm2}:9999",
}


def site(directory: Path, name: str, *properties: tuple[str, str, bool]) -> None:
    body = "".join(
        f"<property><name>{key}</name><value>{value}</value><final>{str(final).lower()}</final>"
        "</property>"
        for key, value, final in properties
    )
    (directory / f"{name}.xml").write_text(f"<configuration>{body}</configuration>")


def test_the_last_file_counts_unless_an_earlier_was_final(tmp_path: Path) -> None:
    site(tmp_path, "core-site", ("a", "core", False), ("b", "core", True))
    site(tmp_path, "yarn-site", ("a", "yarn", False), ("b", "yarn", False))
    conf = Configuration.load(tmp_path)
    assert (conf.get("a"), conf.get("b")) == ("yarn", "core")
    assert conf.directory == tmp_path


def test_it_is_found_by_the_usual_variables(tmp_path: Path) -> None:
    for name in ("hadoop", "yarn", "home/etc/hadoop"):
        (tmp_path / name).mkdir(parents=True)
    environ = {
        "HADOOP_CONF_DIR": str(tmp_path / "hadoop"),
        "YARN_CONF_DIR": str(tmp_path / "yarn"),
        "HADOOP_HOME": str(tmp_path / "home"),
    }
    assert Configuration.find(environ) == tmp_path / "hadoop"
    del environ["HADOOP_CONF_DIR"]
    assert Configuration.find(environ) == tmp_path / "yarn"
    del environ["YARN_CONF_DIR"]
    assert Configuration.find(environ) == tmp_path / "home/etc/hadoop"
    assert Configuration.find({}) is None
    with pytest.raises(SettingsError, match="HADOOP_CONF_DIR names"):
        Configuration.find({"HADOOP_CONF_DIR": str(tmp_path / "nowhere")})


def test_nothing_to_load_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no Hadoop configuration") as caught:
        Configuration.load(environ={})
    assert "HADOOP_CONF_DIR" in (caught.value.hint or "")
    with pytest.raises(SettingsError, match="contains none of core-site"):
        Configuration.load(tmp_path)


def test_spaces_around_a_value_are_kept_for_who_asks_for_them(tmp_path: Path) -> None:
    site(
        tmp_path,
        "yarn-site",
        ("yarn.admin.acl", " admins", False),
        ("fs.defaultFS", "\n  hdfs://${host}:8020\n", False),
        ("host", " nn ", False),
        ("switch", "\ttrue ", False),
        ("wait", " 10s ", False),
        ("size", " 64k ", False),
        ("names", " a , b ", False),
        ("blank", "  ", False),
    )
    conf = Configuration.load(tmp_path)
    found = AccessList.parse(conf.get("yarn.admin.acl") or "")
    assert (found.users, found.groups) == (frozenset(), frozenset({"admins"}))
    assert conf.get_trimmed("yarn.admin.acl") == "admins"
    assert conf.get_text("fs.defaultFS") == "hdfs:// nn :8020", "only around the whole"
    assert (conf.get_bool("switch"), conf.get_seconds("wait")) == (True, 10.0)
    assert (conf.get_bytes("size"), conf.get_list("names")) == (65536, ["a", "b"])
    assert conf.get_bytes("blank", 3) == 3
    assert conf.get_trimmed("nothing") is None
    with pytest.raises(SettingsError, match="does not set blank"):
        conf.get_text("blank")


def test_variables_are_put_in() -> None:
    conf = Configuration.of(
        {
            "host": "rm.example",
            "address": "${host}:${port}",
            "port": "80${env.TAIL}",
            "which": "a",
            "a.value": "found",
            "nested": "${${which}.value}",
            "lost": "${nobody}/x",
            "default": "${env.NONE:-d}${env.NONE-e}${env.EMPTY:-f}${env.EMPTY-g}",
            "dir": "${hadoop.tmp.dir}/x",
            "itself": "${itself}",
            "money": "$5 ${ spaced }",
        },
        environ={"TAIL": "32", "EMPTY": ""},
    )
    assert conf.get("address") == "rm.example:8032"
    assert conf.get("nested") == "found"
    assert conf.get("lost") == "${nobody}/x"
    assert conf.get("default") == "def"
    assert conf.get("dir") == f"/tmp/hadoop-{pwd.getpwuid(os.geteuid()).pw_name}/x"
    assert conf.get("itself") == "${itself}"
    assert conf.get("money") == "$5 ${ spaced }"


def test_twenty_substitutions_and_no_more() -> None:
    chain = {f"v{n}": f"${{v{n + 1}}}" for n in range(19)} | {"v19": "end"}
    assert Configuration.of(chain).get("v0") == "end"
    grows = Configuration.of({"bomb": "${bomb}${bomb}"})
    with pytest.raises(SettingsError, match="bomb has more than 20 variables"):
        grows.get("bomb")


def test_typed_getters() -> None:
    conf = Configuration.of(
        {"yes": "True", "no": "false",
         "ms": "1500", "s": "10s", "m": "3 m", "d": "1d", "k": "64k", "g": "2GB", "n": "7",
         "list": " a, b ,,c"}
    )  # fmt: skip
    assert (conf.get_bool("yes"), conf.get_bool("no"), conf.get_bool("?", True)) == (1, 0, 1)
    assert [conf.get_seconds(name) for name in ("ms", "s", "m", "d")] == [1.5, 10, 180, 86400]
    assert conf.get_seconds("n", "s") == 7
    assert [conf.get_bytes(name) for name in ("k", "g", "n")] == [65536, 2**31, 7]
    assert conf.get_list("list") == ["a", "b", "c"]
    assert conf.get_list("none") == []
    assert (conf.get_seconds("?", default=2.0), conf.get_bytes("?", 3)) == (2.0, 3)


@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        (Configuration.get_bool, "true or false"),
        (Configuration.get_seconds, "a duration"),
        (Configuration.get_bytes, "a size"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_setting_and_its_line(
    tmp_path: Path, ask: Callable[[Configuration, str], object], wanted: str
) -> None:
    site(tmp_path, "yarn-site", ("x", "many", False))
    conf = Configuration.load(tmp_path)
    with pytest.raises(SettingsError, match=f"x is 'many', not {wanted}") as caught:
        ask(conf, "x")
    assert f"{tmp_path / 'yarn-site.xml'}, line 1" in (caught.value.hint or "")
    with pytest.raises(SettingsError, match="does not set y"):
        ask(conf, "y")


def test_defaults_old_names_and_security() -> None:
    conf = Configuration.of({"fs.default.name": "hdfs://nn"})
    assert conf.get("fs.defaultFS") == conf.get("fs.default.name") == "hdfs://nn"
    assert not conf.secure
    assert Configuration.of({"hadoop.security.authentication": "KERBEROS"}).secure
    assert conf.get_bytes("ipc.maximum.response.length") == 128 * 1024**2
    assert conf.get("no.such", "x") == "x"


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
    assert rm_addresses(conf, RmService.CLIENT) == [Address("rm", 8032)]
    assert rm_addresses(conf, RmService.SCHEDULER) == [Address("rm", 8030)]
    conf = Configuration.of({"yarn.resourcemanager.address": "x:1"})
    assert rm_addresses(conf, RmService.CLIENT) == [Address("x", 1)]
    assert rm_addresses(conf, RmService.WEB) == [Address("0.0.0.0", 8088)]


def test_a_highly_available_pair() -> None:
    conf = Configuration.of(HA)
    assert rm_addresses(conf, RmService.CLIENT) == [Address("one", 8032), Address("two", 9999)]
    assert rm_addresses(conf, RmService.SCHEDULER) == [Address("one", 8030), Address("two", 8030)]


def test_broken_settings_are_named() -> None:
    with pytest.raises(SettingsError, match="rm-ids names none"):
        rm_addresses(
            Configuration.of({"yarn.resourcemanager.ha.enabled": "true"}), RmService.CLIENT
        )
    incomplete = {key: value for key, value in HA.items() if "hostname.rm1" not in key}
    with pytest.raises(SettingsError, match=r"does not set yarn.resourcemanager.hostname.rm1"):
        rm_addresses(Configuration.of(incomplete), RmService.CLIENT)
    wrong = Configuration.of({"yarn.resourcemanager.address": "x:y"})
    with pytest.raises(SettingsError, match=r"address: 'x:y' is not host:port"):
        rm_addresses(wrong, RmService.CLIENT)
