from __future__ import annotations

import platform
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from ytf.errors import SettingsError
from ytf.minicluster.java import find_java, java_version
from ytf.minicluster.releases import Release, fetch, pom

NATIVE_JAR = "hadoop-apache-3.3.5-3.jar"
MAVEN = """\
#!{python}
import os, shutil, sys, time
if "--strict-checksums" in sys.argv and {damaged}:
    print("[ERROR] Could not transfer artifact: Checksum validation failed, expected 0 but is 1")
    raise SystemExit(1)
with open({log!r}, "a") as log:
    log.write("run\\n")
if {fails}:
    print("[INFO] hello\\n[ERROR] Could not transfer artifact: unknown host\\n[ERROR] advice")
    raise SystemExit(1)
(out,) = (word.partition("=")[2] for word in sys.argv if word.startswith("-DoutputDirectory="))
os.mkdir(out)
shutil.copy({jar!r}, out)
open(os.path.join(out, "hadoop-common-3.4.3.jar"), "w").close()
assert os.path.exists("pom.xml")
"""


class FakeMaven:
    """A ``mvn`` on the PATH that has what it is asked for."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.runs = place / "runs"
        self.runs.touch()
        with zipfile.ZipFile(place / NATIVE_JAR, "w") as jar:
            for machine in ("amd64", "aarch64", "ppc64le"):
                jar.writestr(f"nativelib/Linux-{machine}/libhadoop.so", f"for {machine}")
        self.install()

    def install(self, *, fails: bool = False, damaged: bool = False) -> None:
        mvn = self.place / "mvn"
        mvn.write_text(
            MAVEN.format(
                python=sys.executable,
                log=str(self.runs),
                jar=str(self.place / NATIVE_JAR),
                fails=fails,
                damaged=damaged,
            )
        )
        mvn.chmod(0o755)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a Java of 17."""
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.1"\n')
    java = tmp_path / "jdk" / "bin" / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("YTF_HADOOP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def maven(cached: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMaven:
    place = cached.parent / "maven"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return FakeMaven(place)


def silent(text: str) -> None:
    pass


def test_a_release_is_fetched_once(cached: Path, maven: FakeMaven) -> None:
    said: list[str] = []
    release = fetch("3.4.3", said.append)
    assert release == fetch("3.4.3", said.append) == Release("3.4.3", cached / "3.4.3")
    assert maven.runs.read_text() == "run\n"
    assert [line.split()[0] for line in said] == ["fetching", "fetched"]
    assert [jar.name for jar in release.jars.iterdir()] == ["hadoop-common-3.4.3.jar"]
    machine = {"x86_64": "amd64"}.get(platform.machine(), platform.machine())
    assert (release.native / "libhadoop.so").read_text() == f"for {machine}"


def test_two_at_once(cached: Path, maven: FakeMaven) -> None:
    threads = [threading.Thread(target=fetch, args=("3.4.3", silent)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert maven.runs.read_text() == "run\n"
    assert sorted(path.name for path in cached.iterdir()) == [".lock", "3.4.3"]


def test_a_failed_fetch_says_why_and_leaves_nothing(cached: Path, maven: FakeMaven) -> None:
    maven.install(fails=True)
    with pytest.raises(SettingsError) as caught:
        fetch("3.4.3", silent)
    assert "mvn exited with 1:\n[ERROR] Could not transfer artifact: unknown host" in str(
        caught.value
    )
    assert "network" in str(caught.value.hint)
    assert [path.name for path in cached.iterdir()] == [".lock"]
    maven.install(fails=False)
    fetch("3.4.3", silent)


def test_a_file_with_another_checksum_is_not_kept(cached: Path, maven: FakeMaven) -> None:
    maven.install(damaged=True)
    with pytest.raises(SettingsError, match="Checksum validation failed") as caught:
        fetch("3.4.3", silent)
    assert "damaged or replaced on its way, and nothing was kept" in str(caught.value.hint)
    assert [path.name for path in cached.iterdir()] == [".lock"]


def test_what_a_killed_fetch_left_is_no_release(cached: Path, maven: FakeMaven) -> None:
    (cached / ".building-3.4.3" / "jars").mkdir(parents=True)
    fetch("3.4.3", silent)
    assert sorted(path.name for path in cached.iterdir()) == [".lock", "3.4.3"]


def test_no_maven(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SettingsError, match=r"there is no mvn on the PATH") as caught:
        fetch("3.4.3", silent)
    assert "apt-get install maven" in str(caught.value.hint)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingsError, match=r"there is no java on the PATH") as caught:
        find_java("3.4.3")
    assert "openjdk-17" in str(caught.value.hint)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=r"there is no java in JAVA_HOME"):
        find_java("3.4.3")


@pytest.mark.parametrize(
    ("java", "hadoop", "fits"),
    [
        ("1.8.0_402", "3.4.3", False),
        ("11.0.2", "3.4.3", True),
        ("11.0.2", "3.5.0", False),
        ("17", "3.5.0", True),
        ("24.0.1", "3.4.3", False),
    ],
)
def test_which_java_fits(java: str, hadoop: str, fits: bool, cached: Path) -> None:
    (cached.parent / "jdk" / "release").write_text(f'JAVA_VERSION="{java}"\n')
    if fits:
        assert find_java(hadoop).name == "java"
    else:
        with pytest.raises(SettingsError, match=rf"is Java \d+: Hadoop {hadoop}"):
            find_java(hadoop)


def test_a_java_without_a_release_file_is_asked(cached: Path) -> None:
    java = cached.parent / "jdk" / "bin" / "java"
    (cached.parent / "jdk" / "release").unlink()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    assert java_version(java) == 21


def test_the_project_asks_for_one_release_and_nothing_of_the_native_jar_but_itself() -> None:
    text = pom("9.9.9")
    assert text.count("<version>9.9.9</version>") == 8
    assert text.count("<exclusion>") == 1
