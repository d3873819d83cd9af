"""TensorBoard's environment is made once, whole or not at all, whoever else makes it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ytf.errors import SettingsError
from ytf.packaging import environments

FAKE_UV = """\
#!/bin/sh
echo "$*" >> "{log}"
case "$1" in
venv)
    for target; do :; done
    mkdir -p "$target/bin"
    ln -s "{python}" "$target/bin/python"
    ;;
pip)
    {install}
    ;;
esac
"""


@pytest.fixture
def ytf_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(environments.TENSORBOARD, raising=False)
    return tmp_path / "home"


@pytest.fixture
def uv_log(tmp_path: Path) -> Path:
    return tmp_path / "uv.log"


FakeUv = Callable[[str], None]


@pytest.fixture
def fake_uv(tmp_path: Path, uv_log: Path, monkeypatch: pytest.MonkeyPatch) -> FakeUv:
    """Put a uv on PATH whose ``pip install`` does what it is told."""

    def put(install: str = ":") -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "uv"
        script.write_text(FAKE_UV.format(log=uv_log, python=sys.executable, install=install))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    return put


def entries(home: Path) -> set[str]:
    return {path.name for path in (home / "environments").iterdir() if path.name != ".lock"}


def python_of(tool: environments.Tool) -> Path:
    return Path(tool.environment or "", "bin", "python")


def test_made_once_and_then_found(ytf_home: Path, fake_uv: FakeUv, uv_log: Path) -> None:
    fake_uv(":")
    said: list[str] = []
    tool = environments.tensorboard(said.append)
    assert tool.argv == ("python", "-I", "-m", "tensorboard.main")
    assert Path(tool.environment or "").parent == ytf_home / "environments"
    assert len(said) == 2
    calls = uv_log.read_text()

    assert environments.tensorboard(said.append) == tool
    assert len(said) == 2
    assert uv_log.read_text() == calls
    assert len(entries(ytf_home)) == 1


def test_the_interpreter_works_after_the_rename(ytf_home: Path, fake_uv: FakeUv) -> None:
    fake_uv(":")
    python = python_of(environments.tensorboard())
    done = subprocess.run([python, "-I", "-c", "print(6 * 7)"], capture_output=True, check=True)
    assert done.stdout == b"42\n"


def test_a_failed_install_leaves_nothing_and_says_what_to_do(
    ytf_home: Path, fake_uv: FakeUv
) -> None:
    fake_uv('echo "error: cannot reach the index" >&2; exit 2')
    with pytest.raises(SettingsError, match="cannot reach the index") as caught:
        environments.tensorboard()
    assert caught.value.hint is not None
    assert "YTF_TENSORBOARD" in caught.value.hint
    assert entries(ytf_home) == set()

    fake_uv(":")
    environments.tensorboard()
    assert len(entries(ytf_home)) == 1


def test_what_a_killed_build_left_is_swept(ytf_home: Path, fake_uv: FakeUv) -> None:
    fake_uv(":")
    (ytf_home / "environments" / ".building-tensorboard-0" / "bin").mkdir(parents=True)
    environments.tensorboard()
    assert not any(name.startswith(".building") for name in entries(ytf_home))


def test_two_at_once_make_one(ytf_home: Path, fake_uv: FakeUv, uv_log: Path) -> None:
    fake_uv("sleep 0.2")
    together = threading.Barrier(4)
    found: list[environments.Tool] = []

    def one() -> None:
        together.wait(timeout=10)
        found.append(environments.tensorboard())

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert uv_log.read_text().count("pip install") == 1


def test_an_environment_whose_interpreter_is_gone_is_made_anew(
    ytf_home: Path, fake_uv: FakeUv
) -> None:
    fake_uv(":")
    python = python_of(environments.tensorboard())
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert python_of(environments.tensorboard()) == python
    assert os.access(python, os.X_OK)


def test_without_uv_venv_and_pip_do_it(
    ytf_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    steps = environments._steps(tmp_path / "new", tmp_path / "list.txt")
    assert steps[0] == [sys.executable, "-I", "-m", "venv", str(tmp_path / "new")]
    assert steps[1][:4] == [str(tmp_path / "new" / "bin" / "python"), "-I", "-m", "pip"]
    assert steps[1][-2:] == ["-r", str(tmp_path / "list.txt")]


def test_a_given_command_is_used(
    ytf_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "my board"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("YTF_TENSORBOARD", f"'{own}' --reload_interval 1")
    assert environments.tensorboard().argv == (str(own), "--reload_interval", "1")
    assert not ytf_home.exists()


@pytest.mark.parametrize("given", ["/no/such/tensorboard", "'open quote", "''"])
def test_a_given_command_that_cannot_run_is_refused(
    ytf_home: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("YTF_TENSORBOARD", given)
    with pytest.raises(SettingsError, match="YTF_TENSORBOARD"):
        environments.tensorboard()


def test_the_list_of_packages_pins_every_one() -> None:
    text = Path(environments.__file__).with_name("tensorboard.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert any(line.startswith("tensorboard==") for line in lines)
    assert all("==" in line.partition(";")[0] for line in lines)
    assert "://" not in text
