"""Putting an environment together on a node: links, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.starter.costly_modules import COSTLY
from ytf.starter import environment_builder
from ytf.starter.environment_builder import AssemblyError, assemble
from ytf.starter.program_env import activate


class Node:
    """Unpacked layers, and a manifest that makes one environment of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layers: list[str] = []
        self.plan: dict[str, Any] = {
            "version": 2,
            "layers": 3,
            "executable": "bin/python3.11",
            "library_path": False,
            "python": "3.11",
            "tree": {
                "bin": {"tool": 0},
                "lib": {"pure": 0, "mixed": {"a.so": 0, "b.py": 1, "deep": {"c": 1}}},
            },
        }
        self.layer("one", "bin/tool", "lib/pure/x.py", "lib/pure/deep/y.py", "lib/mixed/a.so")
        self.layer("two", "lib/mixed/b.py", "lib/mixed/deep/c")
        self.layer("base", "bin/python3.11", "lib/python3.11/os.py")

    def layer(self, name: str, *paths: str) -> None:
        for path in paths:
            place = self.root / "cache" / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{name}:{path}")
        link = self.root / f"link-{name}"
        link.symlink_to(self.root / "cache" / name)
        self.layers.append(str(link))

    def assemble(self) -> dict[str, str]:
        # A file each time: threads that assemble at once must not see each other's half-written.
        handle, manifest = tempfile.mkstemp(dir=self.root, suffix=".json")
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(self.plan, file)
        return assemble(manifest, self.layers, str(self.root / "env"))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_every_file_is_there(node: Node) -> None:
    variables = node.assemble()
    env = node.root / "env"
    assert variables == {"PATH": f"{env}/bin", "VIRTUAL_ENV": str(env)}
    assert (env / "lib/pure/deep/y.py").read_text() == "one:lib/pure/deep/y.py"
    assert (env / "lib/mixed/deep/c").read_text() == "two:lib/mixed/deep/c"
    assert (env / "lib/pure").is_symlink()
    assert not (env / "lib/mixed").is_symlink()
    # Straight into the cache, not by way of the container's own link to it.
    assert os.readlink(env / "lib/mixed/a.so") == f"{node.root}/cache/one/lib/mixed/a.so"
    for name in ("python", "python3", "python3.11"):
        assert os.readlink(env / "bin" / name) == f"{node.root}/cache/base/bin/python3.11"
    settings = dict(line.split(" = ") for line in (env / "pyvenv.cfg").read_text().splitlines())
    assert settings["home"] == f"{node.root}/cache/base/bin"
    assert settings["include-system-site-packages"] == "false"


def test_what_is_there_is_used_as_it_is(node: Node) -> None:
    first = node.assemble()
    (node.root / "env/mine").write_text("kept")
    assert node.assemble() == first
    assert (node.root / "env/mine").read_text() == "kept"


def test_many_at_once_make_one(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(4)
    rename = os.rename

    def at_once(source: str, target: str) -> None:
        together.wait(60)
        rename(source, target)

    monkeypatch.setattr("os.rename", at_once)
    results: list[dict[str, str]] = []
    threads = [threading.Thread(target=lambda: results.append(node.assemble())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(result == results[0] for result in results)
    assert not list(node.root.glob("*.making"))
    assert (node.root / "env/lib/mixed/b.py").exists()
    assert (node.root / "cache/one/lib/mixed/a.so").exists()


def test_one_that_fails_leaves_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    symlink, made = os.symlink, []

    def full(source: str, target: str) -> None:
        made.append(target)
        if len(made) > 3:
            raise OSError(28, "No space left on device")
        symlink(source, target)

    monkeypatch.setattr("os.symlink", full)
    with pytest.raises(AssemblyError, match=r"cannot be made at .*env: .*No space left"):
        node.assemble()
    monkeypatch.undo()
    assert sorted(p.name for p in node.root.iterdir() if "env" in p.name) == []
    assert (node.root / "cache/one/lib/pure/x.py").exists()


def test_a_missing_layer_is_named(node: Node) -> None:
    whole = node.layers
    node.layers = whole[:2]
    with pytest.raises(AssemblyError, match="has 3 layers, of which 2 were given"):
        node.assemble()
    node.layers = [whole[0], str(node.root / "nowhere"), whole[2]]
    with pytest.raises(AssemblyError, match=r"is not unpacked at .*nowhere"):
        node.assemble()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}'])
def test_a_bad_manifest_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)
    with pytest.raises(AssemblyError, match="manifest"):
        assemble(str(path), [], str(tmp_path / "env"))


def test_variables_go_before_those_that_are_there(node: Node) -> None:
    node.plan["library_path"] = True
    variables = node.assemble()
    given = {b"PATH": b"/usr/bin", b"PYTHONHOME": b"/x", b"VIRTUAL_ENV": b"/y", b"HOME": b"/h"}
    env = node.root / "env"
    assert activate(variables, given) == {
        b"PATH": f"{env}/bin:/usr/bin".encode(),
        b"VIRTUAL_ENV": str(env).encode(),
        b"LD_LIBRARY_PATH": f"{node.root}/cache/base/lib".encode(),
        b"HOME": b"/h",
    }


def test_the_programs_of_a_base_come_after_those_of_the_environment(node: Node) -> None:
    node.plan["base_programs"] = True
    env = node.root / "env"
    assert node.assemble()["PATH"] == f"{env}/bin:{node.root}/cache/base/bin"


def test_activate_is_not_written_into_a_layer(node: Node) -> None:
    node.plan["tree"]["bin"]["activate"] = 0
    theirs = node.root / "cache/one/bin/activate"
    theirs.write_text("of a package")
    node.assemble()
    assert f"VIRTUAL_ENV='{node.root}/env'" in (node.root / "env/bin/activate").read_text()
    assert theirs.read_text() == "of a package"


def test_its_import_loads_nothing_costly() -> None:
    folder = str(Path(environment_builder.__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import environment_builder as it"
    code += "; print(it.__name__, *sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "environment_builder" in loaded
    assert COSTLY & set(loaded) == set()
