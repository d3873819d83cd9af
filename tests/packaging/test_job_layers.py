"""Environments and ytf's runtime are run from their layers, without the original files."""

from __future__ import annotations

import json
import operator
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from venv import create as create_venv

import msgspec
import pytest

from tests.packaging.fake_node import FakeNode
from tests.packaging.tiny_elf import library
from tests.packaging.venvs import PYTHON, Venv
from ytf.errors import SettingsError
from ytf.packaging import installation
from ytf.packaging.environment_layers import (
    EnvironmentFiles,
    file_groups,
    list_environment,
    make_manifest,
    split_environment,
)
from ytf.packaging.installation import Installation
from ytf.packaging.interpreter_layer import make_interpreter
from ytf.packaging.job_layers import JobLayers, Runtime, make_runtime
from ytf.packaging.launch_scripts import RuntimePaths, module_script, starter_script
from ytf.packaging.layer_cache import LayerCache
from ytf.packaging.layers import LayerContent, LayerKind, layer_content
from ytf.starter import environment_builder
from ytf.starter.program_env import activate

BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
PACKAGES = f"lib/{PYTHON}/site-packages"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> FakeNode:
    """One node for all tests: layers are unpacked once, as on a real node."""
    return FakeNode(tmp_path_factory.mktemp("node"), tmp_path_factory.mktemp("cache"))


def run(command: list[str], env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assembled(venv: Venv, node: FakeNode, target: Path) -> dict[str, str]:
    found = installation.at(venv.root)
    assert found == venv.installation
    contents, base = split_environment(found, list_environment(found)), make_interpreter(found)
    layers = node.localize([*contents, base.content])
    plan = target.with_suffix(".json")
    plan.write_bytes(make_manifest(base, contents, layers[:-1]).encode())
    places = [node.places[layer.digest] for layer in layers]
    variables = environment_builder.assemble(str(plan), places, str(target))
    return activated(variables, {**BARE, "PYTHONHOME": "/wrong", "VIRTUAL_ENV": "/wrong"})


def activated(variables: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    inherited = {os.fsencode(name): os.fsencode(value) for name, value in given.items()}
    result = activate(variables, inherited)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in result.items()}


def test_an_environment_runs_from_its_layers(tmp_path: Path, node: FakeNode) -> None:
    venv = Venv(tmp_path / "venv")
    code = tmp_path / "project/developed"
    code.mkdir(parents=True)
    (code / "__init__.py").write_text("here = __file__\n")
    call = "import hello; hello.main()"
    venv.install(
        "hello",
        {
            "hello/__init__.py": b"import sys\ndef main():\n    print('hello', *sys.argv[1:])\n",
            "bin/hello": venv.script(call),
        },
    )
    venv.install("developed", {"_developed.pth": f"{code.parent}\n".encode()})
    target = tmp_path / "node-env"
    env = assembled(venv, node, target)
    for place in (venv.root, code.parent):
        place.rename(place.with_name(f"{place.name}-gone"))
    facts = (
        "import sys, json, hello, developed, ssl, ctypes, zlib, os; "
        "maps = open('/proc/self/maps').read().split(); "
        "print(json.dumps([sys.prefix, sys.base_prefix, sys.executable, developed.here, "
        "hello.__cached__, [x for x in maps if 'libpython' in x][:1], sys.path]))"
    )
    said = json.loads(run(["python", "-c", facts], env, tmp_path))
    prefix, base, executable, developed, cached, libpython, path = said
    assert (prefix, executable) == (str(target), str(target / "bin/python"))
    assert base.startswith(str(node.root / "filecache"))
    assert developed == str(target / "src/_developed-0/developed/__init__.py")
    assert os.path.exists(cached)
    assert all(place.startswith(str(node.root)) for place in libpython)
    origin = installation.current().base_prefix
    assert not any(entry.startswith(origin) for entry in path)
    assert run(["hello", "a b", "$c"], env, tmp_path) == "hello a b $c\n"
    assert run(["python3", "-m", "site"], env, tmp_path)


def test_a_package_in_several_layers_is_one_in_the_environment(
    tmp_path: Path, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ytf.packaging.environment_layers.BIG", 1)
    monkeypatch.setattr("ytf.packaging.environment_layers._LARGEST", 40)
    venv = Venv(tmp_path / "venv")
    modules = {f"large/m{n}.py": f"value = {n}  # {'x' * 40}\n".encode() for n in range(5)}
    venv.install("large", {"large/__init__.py": b"", **modules})
    contents = split_environment(venv.installation, list_environment(venv.installation))
    assert len(contents) > 5
    env = assembled(venv, node, tmp_path / "env")
    venv.root.rename(tmp_path / "gone")
    program = "from large import m0, m4; print(m0.value, m4.value, m4.__cached__)"
    *values, cached = run(["python", "-c", program], env, tmp_path).split()
    assert values == ["0", "4"]
    assert os.path.exists(cached)


def test_what_programs_expect_of_any_environment_is_there(tmp_path: Path, node: FakeNode) -> None:
    """Linked programs, ``activate``, a venv in it with pip, headers, all of the library."""
    venv = Venv(tmp_path / "venv")
    venv.install("hello", {"bin/hello3": venv.script("print('hello', sys.prefix)")})
    (venv.root / "bin/hello").symlink_to("hello3")
    empty = tmp_path / "project/pkg/empty"
    empty.mkdir(parents=True)
    venv.install("pkg", {"pkg.pth": f"{tmp_path}/project\n".encode()})
    target = tmp_path / "it's an env"
    env = assembled(venv, node, target)
    venv.root.rename(tmp_path / "gone")
    assert run(["hello"], env, tmp_path) == f"hello {target}\n"
    assert (target / "src/pkg-0/pkg/empty").is_dir()
    program = f". {shlex.quote(str(target / 'bin/activate'))} && hello"
    assert run(["sh", "-c", program], BARE, tmp_path) == f"hello {target}\n"
    facts = (
        "import ensurepip, sysconfig, os; print(ensurepip.version(), "
        "os.path.isfile(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    )
    assert run(["python", "-c", facts], env, tmp_path).endswith("True\n")
    run(["python", "-m", "venv", "inner"], env, tmp_path)
    assert run(["inner/bin/pip", "--version"], env, tmp_path).startswith("pip ")


def test_what_is_not_in_the_layers_is_told_with_them(tmp_path: Path) -> None:
    venv = Venv(tmp_path / "venv")
    venv.install(
        "pkg",
        {
            "pkg.pth": b"import pkg_editable_hook",
            "pkg-1.0.dist-info/direct_url.json": b'{"dir_info": {"editable": true}}',
        },
    )
    shipped = JobLayers(LayerCache(tmp_path / "cache")).add_environment(venv.installation)
    [note] = shipped.notes
    assert note.startswith("pkg is an editable install by an unknown tool")


def test_an_unchanged_environment_is_only_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = Venv(tmp_path / "venv")
    venv.install("hello", {"hello.py": b"x = 1\n"})
    source = tmp_path / "project/mine.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    venv.install("mine", {"mine.pth": f"{source.parent}\n".encode()})
    cache = LayerCache(tmp_path / "cache")
    first = JobLayers(cache).add_environment(venv.installation)
    splits = []

    def split(found: Installation, listed: EnvironmentFiles) -> list[LayerContent]:
        splits.append(found)
        return split_environment(found, listed)

    monkeypatch.setattr("ytf.packaging.job_layers.split_environment", split)
    again = JobLayers(cache)
    assert again.add_environment(venv.installation) == first
    assert splits == []
    assert {*again.layers} == {*first.layers, first.manifest_layer}
    # A store that has lost them gets the same layers; the environment is split for all at once.
    fresh, expected = LayerCache(tmp_path / "other"), JobLayers(LayerCache(tmp_path / "third"))
    expected.add_environment(venv.installation)
    splits.clear()
    for layer in again.layers:
        assert again.archive(layer).sha256 == expected.archive(layer).sha256
    assert len(splits) == 1
    # A changed line of the source is one new layer.
    splits.clear()
    source.write_text("x = 2\n")
    line = JobLayers(cache).add_environment(venv.installation)
    assert splits == []
    assert [*map(operator.eq, first.layers, line.layers)] == [True, False, True]
    assert line.manifest_layer == first.manifest_layer
    assert line == JobLayers(fresh).add_environment(venv.installation)
    # A directory with machine code is no link, so the manifest is another one.
    machine_code = library()
    for changed, data, is_linked_anew in (
        (source.with_name("new.py"), b"", False),
        (source.with_name("new.py"), machine_code, True),
        (source.with_name("new.py"), b"", True),
        (venv.packages / "hello.py", b"x = 22\n", False),
        (venv.root / "bin/tool", b"x = 22\n", True),
    ):
        changed.write_bytes(data)
        before, first = first, JobLayers(cache).add_environment(venv.installation)
        assert first != before
        assert (first.manifest != before.manifest) == is_linked_anew
        assert first == JobLayers(LayerCache(tmp_path / "fourth")).add_environment(
            venv.installation
        )


def test_an_environment_with_programs_elsewhere_is_split_each_time(tmp_path: Path) -> None:
    """A program of a Python that is no virtual environment is in no list of its files."""
    venv = Venv(tmp_path / "venv")
    tool = tmp_path / "venv/bin/tool"
    venv.install("hello", {"bin/tool": b"#!/bin/sh\n"})
    found = msgspec.structs.replace(
        venv.installation, base_prefix=str(venv.root), stdlib=str(venv.packages.parent)
    )
    assert not found.is_virtual
    cache = LayerCache(tmp_path / "cache")
    first = JobLayers(cache).add_environment(found)
    tool.write_text("#!/bin/sh\necho\n")
    assert JobLayers(cache).add_environment(found).layers != first.layers


def test_a_library_finds_its_sibling_in_another_layer(tmp_path: Path, node: FakeNode) -> None:
    """``$ORIGIN`` leads through the environment, whatever layer a library is in."""
    venv = Venv(tmp_path / "venv")
    venv.install(
        "one",
        {
            "one/deep/_ext.so": library(["libsibling.so"], "$ORIGIN/../../sibling.libs"),
            "one/pure/x.py": b"",
            "one/__init__.py": b"",
        },
    )
    venv.install("sibling", {"sibling.libs/libsibling.so": library()})
    found = venv.installation
    contents = _each_alone(venv)
    assert len(contents) == 2
    base = make_interpreter(found)
    layers = node.localize([*contents, base.content])
    plan = make_manifest(base, contents, layers[:-1])
    (tmp_path / "plan.json").write_bytes(plan.encode())
    target = tmp_path / "env"
    places = [node.places[layer.digest] for layer in layers]
    env = activated(
        environment_builder.assemble(str(tmp_path / "plan.json"), places, str(target)), BARE
    )
    packages = target / PACKAGES
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    run(["python", "-c", load, str(packages / "one/deep/_ext.so")], env, tmp_path)
    assert not (packages / "one/deep").is_symlink()
    assert (packages / "one/deep/_ext.so").is_symlink()
    assert (packages / "one/pure").is_symlink()
    # Through a link to the directory, the loader does not find the sibling.
    [layer] = [layer for layer in layers if layer.native == (f"{PACKAGES}/one/deep",)]
    (tmp_path / "linked").symlink_to(Path(node.places[layer.digest]) / PACKAGES / "one/deep")
    failed = subprocess.run(
        ["python", "-c", load, str(tmp_path / "linked/_ext.so")],
        env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "libsibling.so: cannot open" in failed.stderr


def _each_alone(venv: Venv) -> list[LayerContent]:
    groups = file_groups(venv.installation, list_environment(venv.installation))
    return [layer_content(LayerKind.DISTRIBUTION, group.name, group.entries) for group in groups]


@pytest.fixture(scope="module")
def own() -> Runtime:
    found = installation.current()
    return make_runtime(found, make_interpreter(found))


def placed(own: Runtime, node: FakeNode, python: str | None = None) -> RuntimePaths:
    layers = node.localize(own.contents)
    names = [Path(node.places[layer.digest]).name for layer in layers]
    return RuntimePaths(
        interpreter=names[0],
        code=names[1],
        libraries=names[2:],
        python=python,
        packages=own.packages,
        version=own.version,
    )


def start(script: str, node: FakeNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = node.root / "launch.sh"
    place.write_text(script)
    return subprocess.run(
        ["sh", str(place), *arguments],
        env=BARE, cwd=node.root, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_runtime_starts_a_starter_and_a_master(own: Runtime, node: FakeNode) -> None:
    places = placed(own, node)
    done = start(starter_script(places, own.interpreter), node)
    assert (done.returncode, "YTF_STARTER is not set" in done.stderr) == (6, True)
    done = start(module_script("ytf.master", places, own.interpreter), node, "--help")
    assert (done.returncode, done.stdout[:18]) == (0, "usage: ytf.master ")


def test_the_runtime_has_what_ytf_requires(own: Runtime) -> None:
    packages = {
        entry.path.removeprefix(f"{own.packages}/").split("/")[0]
        for what in own.libraries
        for entry in what.entries
    }
    assert {"msgspec", "yaml"} <= packages
    assert packages.isdisjoint({"rich", "pygments", "pytest", "ytf"})
    assert f"{own.packages}/ytf/starter/environment_builder.py" in {
        entry.path for entry in own.code.entries
    }


def test_a_layer_of_environment_and_runtime_is_added_once(tmp_path: Path) -> None:
    venv = Venv(tmp_path / "venv")
    venv.install("hello", {"hello.py": b""})
    job_layers = JobLayers(LayerCache(tmp_path / "cache"))
    environment = job_layers.add_environment(venv.installation)
    own = job_layers.add_runtime(installation.current())
    assert environment.layers[-1] == own.interpreter
    every = [*environment.layers, environment.manifest_layer, *own.layers]
    assert len(job_layers.layers) == len(set(every)) == len(every) - 1
    assert environment.manifest.layers == len(environment.layers)
    packed = job_layers.archive(environment.layers[0])
    assert packed.path.stat().st_size == packed.size
    bare = job_layers.add_runtime(installation.current(), with_interpreter=False)
    assert bare.layers == own.layers[1:]


def test_a_python_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/true")
    with pytest.raises(SettingsError, match="does not answer as a Python does"):
        installation.at(tmp_path)


def test_an_unchanged_virtual_environment_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "environment"
    create_venv(made, symlinks=True)
    layers = JobLayers(LayerCache(tmp_path / "cache"))
    asked: list[Path] = []
    ask = installation.at

    def at(path: Path) -> installation.Installation:
        asked.append(path)
        return ask(path)

    monkeypatch.setattr(installation, "at", at)
    found = layers.find_installation(made)
    assert layers.find_installation(made) == found == ask(made)
    assert len(asked) == 1
    # Another interpreter, and settings by which it shows packages that are elsewhere.
    (made / "bin" / "python").unlink()
    shutil.copy(found.base_executable, made / "bin" / "python")
    layers.find_installation(made)
    assert len(asked) == 2
    # Settings that say nothing of packages elsewhere show them.
    settings = made / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace("= false", "= true"))
    for _ in range(2):
        layers.find_installation(made)
    assert len(asked) == 4
    (made / "bin" / "python").unlink()
    with pytest.raises(SettingsError, match="there is no Python environment at"):
        layers.find_installation(made)


def test_nodes_own_python(own: Runtime, node: FakeNode) -> None:
    places = placed(own, node, python=sys.executable)
    done = start(starter_script(places, None), node)
    assert (done.returncode, "YTF_STARTER is not set" in done.stderr) == (6, True)
    done = start(module_script("ytf.master", places, None), node, "--help")
    assert done.returncode == 0
    other = msgspec.structs.replace(places, version="2.7")
    done = start(module_script("ytf.master", other, None), node)
    assert done.returncode == 6
    assert (
        "but the job was submitted with 2.7: name one of that version with --python" in done.stderr
    )
    none = msgspec.structs.replace(places, python="/no/such/python")
    done = start(starter_script(none, None), node)
    assert done.returncode == 6
    assert "has no /no/such/python: name another with --python" in done.stderr


def test_a_node_without_a_library_says_so(own: Runtime, node: FakeNode) -> None:
    places = placed(own, node)
    assert own.interpreter is not None
    needs = msgspec.structs.replace(own.interpreter.needs, libraries=("libc.so.6", "libnope.so.7"))
    shipped = msgspec.structs.replace(own.interpreter, needs=needs)
    done = start(starter_script(places, shipped), node)
    assert done.returncode == 6
    assert "does not run on this node" in done.stderr
    assert "libnope.so.7; the node has glibc " in done.stderr
    assert "'libnope.so.7' from LD_PRELOAD cannot be preloaded" in done.stderr
    assert "--python PATH" in done.stderr


def test_a_node_with_an_old_glibc_says_so(own: Runtime, node: FakeNode) -> None:
    places = placed(own, node)
    assert own.interpreter is not None
    (node.root / "libnew.so").write_bytes(library(glibc="2.999"))
    needs = msgspec.structs.replace(
        own.interpreter.needs, glibc=(2, 999), libraries=(f"{node.root}/libnew.so",)
    )
    shipped = msgspec.structs.replace(own.interpreter, needs=needs)
    done = start(starter_script(places, shipped), node)
    assert done.returncode == 6
    assert "It needs glibc 2.999 or newer" in done.stderr
    assert "GLIBC_2.999' not found" in done.stderr


def test_a_node_on_which_nothing_runs_says_so(own: Runtime, node: FakeNode) -> None:
    places = msgspec.structs.replace(placed(own, node), interpreter="layer-none")
    done = start(starter_script(places, own.interpreter), node)
    assert done.returncode == 6
    assert "does not run on this node" in done.stderr


def test_no_environment_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no Python environment at"):
        installation.at(tmp_path)
    broken = tmp_path / "bin/python"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'no libpython' >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(SettingsError, match="does not run: it exited with 127: no libpython"):
        installation.at(tmp_path)
    broken.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c \"import sys; sys.implementation.name='pypy'; "
        'exec(open(sys.argv.pop(1)).read())" "$3" "$4"\n'
    )
    with pytest.raises(SettingsError, match="only CPython can be shipped"):
        installation.at(tmp_path)
