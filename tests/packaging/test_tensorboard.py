"""TensorBoard's environment is made once, completely or not at all, also by several processes."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.wheels import write_wheel
from ytf.errors import SettingsError
from ytf.packaging import installers, tensorboard
from ytf.packaging.made_environments import ensure_environment

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
    monkeypatch.delenv(tensorboard.TENSORBOARD_VARIABLE, raising=False)
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
    return {path.name for path in (home / "environments").glob("[!.]*")}


def python_of(tool: tensorboard.TensorBoardCommand) -> Path:
    return Path(tool.environment or "", "bin", "python")


def test_made_once_and_then_found(ytf_home: Path, fake_uv: FakeUv, uv_log: Path) -> None:
    fake_uv(":")
    said: list[str] = []
    tool = tensorboard.find_tensorboard(said.append)
    assert tool.argv == ("python", "-I", "-m", "tensorboard_program")
    assert list(Path(tool.environment or "").glob("lib/*/site-packages/tensorboard_program.py"))
    assert Path(tool.environment or "").parent == ytf_home / "environments"
    assert len(said) == 2
    calls = uv_log.read_text()

    assert tensorboard.find_tensorboard(said.append) == tool
    assert len(said) == 2
    assert uv_log.read_text() == calls
    assert len(entries(ytf_home)) == 1


def test_the_interpreter_works_after_the_rename(ytf_home: Path, fake_uv: FakeUv) -> None:
    fake_uv(":")
    python = python_of(tensorboard.find_tensorboard())
    done = subprocess.run([python, "-I", "-c", "print(6 * 7)"], capture_output=True, check=True)
    assert done.stdout == b"42\n"


def test_a_failed_install_leaves_nothing_and_says_what_to_do(
    ytf_home: Path, fake_uv: FakeUv
) -> None:
    fake_uv('echo "error: cannot reach the index" >&2; exit 2')
    with pytest.raises(SettingsError, match="cannot reach the index") as caught:
        tensorboard.find_tensorboard()
    assert caught.value.hint is not None
    assert "YTF_TENSORBOARD" in caught.value.hint
    assert entries(ytf_home) == set()

    fake_uv(":")
    tensorboard.find_tensorboard()
    assert len(entries(ytf_home)) == 1


def test_what_a_killed_build_left_is_made_anew(
    ytf_home: Path, fake_uv: FakeUv, uv_log: Path
) -> None:
    fake_uv(":")
    path = Path(tensorboard.find_tensorboard().environment or "")
    # As a killed build leaves it: the state is written at the end.
    (ytf_home / "environments/.made" / path.name).write_text("")
    (path / "half").touch()
    tensorboard.find_tensorboard()
    assert not (path / "half").exists()
    assert uv_log.read_text().count("pip install") == 2


def test_two_at_once_make_one(ytf_home: Path, fake_uv: FakeUv, uv_log: Path) -> None:
    fake_uv("sleep 0.2")
    together = threading.Barrier(4)
    found: list[tensorboard.TensorBoardCommand] = []

    def one() -> None:
        together.wait(60)
        found.append(tensorboard.find_tensorboard())

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
    python = python_of(tensorboard.find_tensorboard())
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert python_of(tensorboard.find_tensorboard()) == python
    assert os.access(python, os.X_OK)


def test_without_uv_venv_and_pip_do_it(
    ytf_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pinned = tensorboard._pinned(tmp_path / "list.txt")
    steps = installers.install_steps(tmp_path / "new", pinned)
    assert steps[0] == [sys.executable, "-I", "-m", "venv", str(tmp_path / "new")]
    assert steps[1][:4] == [str(tmp_path / "new" / "bin" / "python"), "-I", "-m", "pip"]
    assert steps[1][-2:] == ["-r", str(tmp_path / "list.txt")]
    assert "--require-hashes" in steps[1]


def test_a_given_command_is_used(
    ytf_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "my board"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("YTF_TENSORBOARD", f"'{own}' --reload_interval 1")
    assert tensorboard.find_tensorboard().argv == (str(own), "--reload_interval", "1")
    assert not ytf_home.exists()


@pytest.mark.parametrize("given", ["/no/such/tensorboard", "'open quote", "''"])
def test_a_given_command_that_cannot_run_is_refused(
    ytf_home: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("YTF_TENSORBOARD", given)
    with pytest.raises(SettingsError, match="YTF_TENSORBOARD"):
        tensorboard.find_tensorboard()


def test_the_list_of_packages_pins_every_one_by_hash() -> None:
    text = Path(tensorboard.__file__).with_name("tensorboard.txt").read_text()
    lines = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    assert any(line.startswith("tensorboard==") for line in lines)
    assert all("==" in line.partition(";")[0] for line in lines)
    assert all(re.search(r"(\s+--hash=sha256:[0-9a-f]{64})+$", line) for line in lines)
    assert "://" not in text


def test_uv_refuses_what_has_no_hash(ytf_home: Path, fake_uv: FakeUv, uv_log: Path) -> None:
    fake_uv(":")
    tensorboard.find_tensorboard()
    (install,) = [line for line in uv_log.read_text().splitlines() if line.startswith("pip")]
    assert "--require-hashes --only-binary :all:" in install


def test_a_package_of_another_content_is_refused(
    ytf_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real pip, and a wheel that is not the one that the list means."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "listed", {})
    for variable in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    requirements = tmp_path / "list.txt"
    requirements.write_text(f"listed==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(SettingsError, match="DO NOT MATCH THE HASHES"):
        ensure_environment(tensorboard._recipe(requirements))
    assert entries(ytf_home) == set()


def test_the_first_time_shows_how_far_it_is(ytf_home: Path, fake_uv: FakeUv) -> None:
    fake_uv(
        "echo 'Using Python 3'; echo 'Resolved 12 packages in 3ms' >&2;"
        " echo '   Downloading numpy (16.1MiB)' >&2; echo ' + numpy==2.0';"
        " echo 'Collecting x==1 (from -r file)';"
        " echo '  Downloading x_y-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl (7.4 MB)'"
    )
    said: list[str] = []
    tensorboard.find_tensorboard(said.append)
    first, *progress, last = said
    assert first.startswith("making an environment for TensorBoard, once")
    assert progress == [
        "Resolved 12 packages in 3ms",
        "Downloading numpy (16.1MiB)",
        "Downloading x_y-1.2.3 (7.4 MB)",
    ]
    assert last.startswith("made ")


def test_a_silent_installation_is_said_to_go_on(
    ytf_home: Path, fake_uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installers, "_SILENCE_S", 0.05)
    go = tmp_path / "go"
    fake_uv(f'until [ -e "{go}" ]; do sleep 0.02; done')
    said: list[str] = []

    def on_progress(text: str) -> None:
        said.append(text)
        if text.startswith("still at it"):
            go.touch()

    tensorboard.find_tensorboard(on_progress)
    assert any(text.startswith("still at it (") for text in said)


def test_an_interrupt_ends_the_installation(
    ytf_home: Path, fake_uv: FakeUv, tmp_path: Path
) -> None:
    fake_uv("echo Resolved it; exec sleep 60")

    def on_progress(text: str) -> None:
        if text.startswith("Resolved"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tensorboard.find_tensorboard(on_progress)
    assert entries(ytf_home) == set()
