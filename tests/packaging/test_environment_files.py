"""Real uv and pip make environments from files, of packages that are on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.packaging.wheels import use_local_wheels, write_project, write_wheel
from ytf.errors import SettingsError
from ytf.packaging.environment_files import lock_recipe, project_recipe, requirements_recipe
from ytf.packaging.made_environments import ensure_environment

MAIN = "import sys\ndef main():\n    print('tiny', sys.prefix)\n"


@pytest.fixture
def ytf_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ytf_home: Path) -> Path:
    """A directory with the wheel of ``tiny``, in which uv looks for packages."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "tiny", {"tiny.py": MAIN})
    use_local_wheels(folder, monkeypatch, with_uv=True)
    return folder


def python(environment: Path, code: str) -> str:
    command = [str(environment / "bin/python"), "-I", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_uv_installs_requirements_once(tmp_path: Path, wheels: Path) -> None:
    file = tmp_path / "a list.txt"
    file.write_text("tiny  # of ours\n")
    said: list[str] = []
    environment = ensure_environment(requirements_recipe(file), said.append)
    assert said[0] == "making an environment for a list.txt, once: this may take a minute"
    # Programs can be run where it is, as jobs on this machine do.
    done = subprocess.run([environment / "bin/tiny"], check=True, capture_output=True, text=True)
    assert done.stdout == f"tiny {environment}\n"

    said.clear()
    copy = tmp_path / "elsewhere.txt"
    copy.write_text(file.read_text())
    assert ensure_environment(requirements_recipe(copy), said.append) == environment
    assert said == []


def test_pip_does_where_there_is_no_uv(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_local_wheels(wheels, monkeypatch, with_uv=False)
    write_project(tmp_path / "p", "proj", requires=("tiny",))
    recipe = project_recipe(tmp_path / "p/pyproject.toml")
    environment = ensure_environment(recipe)
    assert python(environment, "import tiny, proj; print(proj.ANSWER)") == "1"

    (tmp_path / "p/src/proj.py").write_text("ANSWER = 22\n")
    again = project_recipe(tmp_path / "p/pyproject.toml")
    assert ensure_environment(again) == environment
    assert python(environment, "import tiny, proj; print(proj.ANSWER)") == "22"


@pytest.mark.parametrize("kind", ["pyproject.toml", "uv.lock"])
def test_a_project_is_installed_again_when_it_changes(
    tmp_path: Path, wheels: Path, kind: str
) -> None:
    project = tmp_path / "my project"
    write_project(project, "proj", requires=("tiny",))
    if kind == "uv.lock":
        subprocess.run(["uv", "lock", "--quiet"], cwd=project, check=True)

    def made(said: list[str]) -> Path:
        recipe = project_recipe if kind == "pyproject.toml" else lock_recipe
        return ensure_environment(recipe(project / kind), said.append)

    said: list[str] = []
    environment = made(said)
    show = "import tiny, proj; print(proj.ANSWER, proj.__file__)"
    assert python(environment, show).startswith(f"1 {environment}/")
    (environment / "kept").touch()

    said.clear()
    assert made(said) == environment
    assert said == []

    (project / "src/proj.py").write_text("ANSWER = 22\n")
    (project / "__pycache__").mkdir(exist_ok=True)
    assert made(said) == environment
    assert said[0] == "proj has changed: installing it again"
    assert python(environment, show).startswith("22 ")
    assert (environment / "kept").exists()

    with (project / "pyproject.toml").open("a") as file:
        file.write("# another comment, and thus another environment\n")
    assert made(said) != environment


def test_a_failure_shows_what_the_installer_said(
    tmp_path: Path, wheels: Path, ytf_home: Path
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("no-such-thing==1\n")
    with pytest.raises(SettingsError, match="no-such-thing") as caught:
        ensure_environment(requirements_recipe(file))
    assert "exited with 1" in str(caught.value)
    assert "PIP_INDEX_URL" in (caught.value.hint or "")
    assert list((ytf_home / "environments").glob("[!.]*")) == []


def test_a_project_that_no_longer_builds_keeps_what_it_had(tmp_path: Path, wheels: Path) -> None:
    write_project(tmp_path / "p", "proj")
    file = tmp_path / "p/pyproject.toml"
    environment = ensure_environment(project_recipe(file))
    backend = (tmp_path / "p/backend.py").read_text()
    (tmp_path / "p/backend.py").write_text("raise SystemExit('it does not build')")
    with pytest.raises(SettingsError, match="it does not build"):
        ensure_environment(project_recipe(file))
    (tmp_path / "p/backend.py").write_text(backend)
    said: list[str] = []
    assert ensure_environment(project_recipe(file), said.append) == environment
    assert said[0] == "proj has changed: installing it again"


def test_what_changes_the_environment_of_requirements(tmp_path: Path, ytf_home: Path) -> None:
    file = tmp_path / "r.txt"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/more.txt").write_text("one\n-c limits.txt\n-r ../r.txt\n")
    (tmp_path / "sub/limits.txt").write_text("one<2\n")
    (tmp_path / "local").mkdir()
    (tmp_path / "local/x.py").write_text("")
    (tmp_path / "edited").mkdir()
    file.write_text(
        "--requirement=sub/more.txt\n./local[extra] ; python_version > '3'\n"
        f"other @ file://{tmp_path}/one.whl\n-e ./edited\nhttps://x/y.whl\n-r https://x/z.txt\n"
    )
    seen = set()

    def new() -> bool:
        name = requirements_recipe(file).name
        is_new = name not in seen
        seen.add(name)
        return is_new

    assert new()
    assert not new()
    for path, changes in (
        ("sub/limits.txt", True),
        ("local/x.py", True),
        ("one.whl", True),
        ("edited/x.py", False),
        ("edited/setup.py", True),
        ("local/.cache/x", False),
        ("local/build/x", False),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("changed")
        assert new() == changes, path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.black]\n", "names no project to install"),
        ("[project\n", "cannot be read"),
        ("[project]\nname = 1\n", "cannot be read"),
    ],
)
def test_a_file_without_a_project_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        project_recipe(tmp_path / "pyproject.toml")


def test_a_lock_needs_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write_project(tmp_path / "p", "proj")
    with pytest.raises(SettingsError, match="can only be read by uv") as caught:
        lock_recipe(tmp_path / "p/uv.lock")
    assert "pyproject.toml" in (caught.value.hint or "")
