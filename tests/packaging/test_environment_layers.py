"""An environment is split so that each file is in one layer and a change affects few layers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packaging.venvs import PYTHON, Venv
from ytf.packaging import environment_layers as module
from ytf.packaging.environment_layers import (
    FileGroup,
    code_contents,
    file_groups,
    layers_of_groups,
    list_environment,
    split_environment,
)
from ytf.packaging.installation import Installation
from ytf.packaging.layers import LayerContent, LayerEntry, LayerKind, describe_layer

PACKAGES = f"lib/{PYTHON}/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(tmp_path / "venv")


def paths(contents: list[LayerContent]) -> list[str]:
    return sorted(entry.path for what in contents for entry in what.entries)


def named(venv: Venv) -> dict[str, set[str]]:
    listed = list_environment(venv.installation)
    groups = file_groups(venv.installation, listed)
    found = {group.name: {entry.path for entry in group.entries} for group in groups}
    code = code_contents(venv.installation, listed)
    found |= {what.name: {entry.path for entry in what.entries} for what in code}
    return {
        name: {path.removeprefix(f"{PACKAGES}/") for path in paths} for name, paths in found.items()
    }


def contents_of(found: Installation) -> list[LayerContent]:
    return split_environment(found, list_environment(found))


def entry(venv: Venv, path: str) -> LayerEntry:
    [found] = [e for what in contents_of(venv.installation) for e in what.entries if e.path == path]
    return found


NAME = st.sampled_from(["a", "b", "c", "d"])
PLACES = st.lists(NAME, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + ".py")


@settings(max_examples=40, deadline=None)
@given(
    files=st.sets(PLACES, max_size=15),
    records=st.dictionaries(NAME, st.sets(PLACES | st.just("../../../bin/x")), max_size=4),
)
def test_every_file_is_in_exactly_one_layer(
    tmp_path_factory: pytest.TempPathFactory, files: set[str], records: dict[str, set[str]]
) -> None:
    venv = Venv(tmp_path_factory.mktemp("x") / "venv")
    venv.write("bin/x", b"x", executable=True)
    venv.write("share/man/x.1", b"x")
    for path in files:
        venv.write(f"{PACKAGES}/{path}", b"1")
    for name, listed in records.items():
        venv.write(
            f"{PACKAGES}/{name}-1.dist-info/RECORD", "".join(f"{p},,\n" for p in listed).encode()
        )
    own = {f"{PACKAGES}/{name}-1.dist-info/RECORD" for name in records}
    expected = {f"{PACKAGES}/{path}" for path in files} | {"bin/x", "share/man/x.1"} | own
    assert paths(contents_of(venv.installation)) == sorted(expected)


def test_big_distributions_are_layers_and_small_ones_bundles(
    venv: Venv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BIG", 1000)
    venv.install("big", {"big/__init__.py": bytes(2000)})
    venv.install("small", {"small.py": b"1"})
    found = {what.name: what for what in contents_of(venv.installation)}
    assert set(found) == {"big-1.0", "bundle-0-of-1"}
    assert found["big-1.0"].kind is LayerKind.DISTRIBUTION
    assert found["bundle-0-of-1"].kind is LayerKind.BUNDLE
    assert f"{PACKAGES}/big-1.0.dist-info/RECORD" in {e.path for e in found["big-1.0"].entries}


def test_large_files_of_a_distribution_are_layers(
    venv: Venv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BIG", 1)
    monkeypatch.setattr(module, "_LARGEST", 1000)
    parts = {f"big/{name}": bytes(400) for name in ("a", "b", "d", "e", "libs/f")}
    venv.install("big", parts | {"big/libs/c.so.2": bytes(5000)})
    (venv.packages / "big/c.so").symlink_to("libs/c.so.2")
    (venv.packages / "big/current").symlink_to("libs")
    with (venv.packages / "big-1.0.dist-info/RECORD").open("a") as file:
        file.write("big/c.so,,\nbig/current,,\n")
    large, others = contents_of(venv.installation)
    assert (large.name, others.name) == ("big-1.0-1-of-2", "big-1.0-2-of-2")
    assert [e.path for e in large.entries] == [f"{PACKAGES}/big/libs/c.so.2"]
    # The others stay together, also if they are larger: they may look for each other.
    assert {e.path for e in others.entries} > {f"{PACKAGES}/{name}" for name in parts}
    # A link cannot lead into another layer, nor to a directory that is only partly in this one.
    assert entry(venv, f"{PACKAGES}/big/c.so").size == 5000
    assert entry(venv, f"{PACKAGES}/big/current/c.so.2").size == 5000
    assert entry(venv, f"{PACKAGES}/big/current/f").size == 400


def test_one_changed_distribution_changes_one_bundle() -> None:
    def bundles(changed: str | None) -> dict[str, str]:
        groups = []
        for number in range(60):
            name = f"dist{number}"
            version, data = ("2.0", b"new") if name == changed else ("1.0", b"old")
            groups.append(
                FileGroup(
                    f"{name}-{version}", (LayerEntry(path=f"{name}.py", data=data, size=1 << 18),)
                )
            )
        return {what.name: describe_layer(what).digest for what in layers_of_groups(groups, None)}

    before = bundles(None)
    assert len(before) == 8
    for number in range(60):
        after = bundles(f"dist{number}")
        assert after.keys() == before.keys()
        assert sum(after[name] != before[name] for name in before) == 1


def test_more_bundles_halve_the_old_ones() -> None:
    def of(count: int) -> list[set[str]]:
        size = 1 << 18
        groups = [
            FileGroup(f"d{n}-1", (LayerEntry(path=f"{n}", data=b"", size=size),))
            for n in range(count)
        ]
        return [{entry.path for entry in what.entries} for what in layers_of_groups(groups, None)]

    assert [len(of(count)) for count in (8, 9, 32, 33)] == [1, 2, 4, 8]
    for small in of(33):
        assert any(small <= big | {"32"} for big in of(32))


def test_two_owners_of_one_file(venv: Venv) -> None:
    venv.install("b", {"shared/x.py": b"1", "b.py": b""})
    venv.install("a", {"shared/x.py": b"1", "a.py": b""})
    found = named(venv)
    assert "shared/x.py" in found["a-1.0"]
    assert "shared/x.py" not in found["b-1.0"]


def test_a_namespace_of_several_distributions(venv: Venv) -> None:
    venv.install("g1", {"google/one.py": b""})
    venv.install("g2", {"google/two.py": b""})
    found = named(venv)
    assert ("google/one.py" in found["g1-1.0"], "google/two.py" in found["g2-1.0"]) == (True, True)


def test_files_that_no_distribution_owns(venv: Venv) -> None:
    venv.write(f"{PACKAGES}/mine/deep/x.py")
    venv.write(f"{PACKAGES}/mine/y.py")
    venv.write(f"{PACKAGES}/settings.pth", b"import os\n# nothing\n\n./mine\n")
    venv.write(f"{PACKAGES}/mine/__pycache__/y.cpython-311.pyc")
    found = named(venv)
    assert found["loose.mine"] == {"mine/deep/x.py", "mine/y.py"}
    assert found["loose.settings.pth"] == {"settings.pth"}
    assert entry(venv, f"{PACKAGES}/settings.pth").source


def test_files_of_the_venv_itself_are_left_out(venv: Venv) -> None:
    assert paths(contents_of(venv.installation)) == []


def test_a_link_to_a_program_becomes_the_program(venv: Venv) -> None:
    venv.install("tool", {"bin/tool3": venv.script("print(1)"), "tool/main.py": venv.script("2")})
    (venv.packages / "tool/main.py").chmod(0o755)
    (venv.root / "bin/tool").symlink_to("tool3")
    (venv.root / "bin/tool2").symlink_to(f"../{PACKAGES}/tool/main.py")
    for name in ("tool", "tool2", "tool3"):
        found = entry(venv, f"bin/{name}")
        assert found.executable
        assert str(venv.root).encode() not in (found.data or b"")
    assert (entry(venv, "bin/tool").data or b"").endswith(b"print(1)\n")


def test_the_visible_packages_of_the_base_are_part_of_it(tmp_path: Path) -> None:
    base, venv = Venv(tmp_path / "base"), Venv(tmp_path / "venv")
    base.install("both", {"both.py": b"of the base", "base_only.py": b""})
    base.install("tool", {"tool.py": b"", "bin/tool": base.script("print(1)")})
    venv.install("both", {"both.py": b"of the venv"})
    found = msgspec.structs.replace(
        venv.installation,
        base_prefix=str(base.root),
        base_executable=str(base.root / "bin/python"),
        site_folders=(str(venv.packages), str(base.packages)),
    )
    contents = contents_of(found)
    sources = {each.path: each for content in contents for each in content.entries}
    assert Path(sources[f"{PACKAGES}/both.py"].source).read_bytes() == b"of the venv"
    assert f"{PACKAGES}/base_only.py" in sources
    assert str(base.root).encode() not in (sources["bin/tool"].data or b"")
    assert sources["bin/tool"].data


OLD_HEAD = b"#!/bin/sh\n'''exec' \"/long/bin/python\" \"$0\" \"$@\"\n' '''\n"
NEW_HEAD = b"'''exec' \"$(dirname -- \"$0\")/python\"%s \"$0\" \"$@\"\n' '''\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"#!{root}/bin/python\nx", NEW_HEAD % b"" + b"x"),
        (b"#!{root}/bin/python3.11 -s\nx", NEW_HEAD % b" -s" + b"x"),
        (OLD_HEAD + b"x", NEW_HEAD % b"" + b"x"),
    ],
    ids=["plain", "with an option", "already through the shell"],
)
def test_programs_use_the_python_beside_them(venv: Venv, before: bytes, after: bytes) -> None:
    venv.write("bin/x", before.replace(b"{root}", str(venv.root).encode()), executable=True)
    data = entry(venv, "bin/x").data
    assert data is not None
    assert data.startswith(b"#!/bin/sh\n")
    assert after in data
    assert str(venv.root).encode() not in data


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF..", b"#!/bin/sh\necho\n", b"#!/usr/bin/env python\n", b"#!/opt/bin/python3\n", b""],
)
def test_other_programs_stay_as_they_are(venv: Venv, data: bytes) -> None:
    venv.write("bin/x", data, executable=True)
    assert entry(venv, "bin/x").data is None


def test_a_link_into_another_layer_becomes_what_it_leads_to(
    venv: Venv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BIG", 1)
    venv.install("one", {"one/lib.so.1": b"library"})
    venv.install("two", {"two/x": b""})
    (venv.packages / "one/lib.so").symlink_to("lib.so.1")
    (venv.packages / "two/lib.so").symlink_to("../one/lib.so.1")
    (venv.packages / "two/folder").symlink_to("../one")
    for name, line in (("one", "one/lib.so,,\n"), ("two", "two/lib.so,,\ntwo/folder,,\n")):
        with (venv.packages / f"{name}-1.0.dist-info/RECORD").open("a") as file:
            file.write(line)
    assert entry(venv, f"{PACKAGES}/one/lib.so").target == "lib.so.1"
    assert entry(venv, f"{PACKAGES}/two/lib.so").target == ""
    assert entry(venv, f"{PACKAGES}/two/folder/lib.so.1").size == 7


def test_a_python_that_is_no_venv_gives_only_its_packages(venv: Venv) -> None:
    venv.install("pkg", {"pkg.py": b"", "bin/tool": venv.script("print(1)")})
    venv.write("bin/unowned", b"", executable=True)
    found = msgspec.structs.replace(venv.installation, base_prefix=str(venv.root))
    listed = paths(contents_of(found))
    assert "bin/tool" in listed
    assert "bin/unowned" not in listed
