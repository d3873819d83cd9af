"""Environments that are named by a URL: what is accepted, and what is told of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.memory_files import Disk, MemoryFiles
from ytf.client.environments import planned_environment, resolve_environment
from ytf.errors import SettingsError, SpecError, UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.packaging import environment_downloads
from ytf.packaging.made_environments import EnvironmentRecipe
from ytf.storage.open_url import open_url


@pytest.fixture
def hadoop_conf(tmp_path: Path) -> dict[str, str]:
    """The variable that names a configuration."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/core-site.xml").write_text(
        "<configuration>"
        "<property><name>fs.defaultFS</name><value>hdfs://nn:8020</value></property>"
        "<property><name>fs.viewfs.mounttable.default.link./my</name>"
        "<value>hdfs://nn:8020/envs</value></property>"
        "</configuration>"
    )
    return {"HADOOP_CONF_DIR": str(tmp_path / "conf")}


@pytest.fixture(autouse=True)
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """An HDFS that has ``/envs/x.pex``, and from which nothing can be read."""
    monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))

    class Unreadable(MemoryFiles):
        def read(self, *given: object) -> object:  # type: ignore[override]
            raise AssertionError("nothing is to be downloaded")

        def uri(self, path: str) -> str:
            return f"hdfs://nn:8020{path}"

    files = Unreadable(Disk())
    files.mkdir("/envs/folder.tar")
    files.write("/envs/x.pex", [b"x"])

    def fake(url: str, conf: Configuration, *, answer_s: float) -> tuple[MemoryFiles, str]:
        real, path = open_url(url, conf)
        assert real.uri("/") == "hdfs://nn:8020/"
        return files, path

    monkeypatch.setattr(environment_downloads, "open_url", fake)
    return files


def resolve(asked: str, environ: dict[str, str]) -> str:
    return resolve_environment(
        asked, where="env", base=Path("/"), environ=environ, make=planned_environment
    )


def test_all_urls_of_a_file_name_one_environment_and_a_dry_run_downloads_nothing(
    tmp_path: Path, hadoop_conf: dict[str, str]
) -> None:
    urls = ("hdfs://nn:8020/envs/x.pex", "hdfs:///envs/x.pex", "viewfs:///my/x.pex")
    [path] = {resolve(url, hadoop_conf) for url in urls}
    assert path.startswith(f"{tmp_path}/home/environments/hdfs-")
    assert not (tmp_path / "home").exists()


def test_it_is_made_by_who_can_tell_of_it(hadoop_conf: dict[str, str]) -> None:
    asked: list[str] = []

    def make(recipe: EnvironmentRecipe) -> Path:
        asked.append(recipe.about)
        return Path("/made")

    made = resolve_environment(
        "hdfs:///envs/x.pex", where="env", base=Path("/"), environ=hadoop_conf, make=make
    )
    assert (made, asked) == ("/made", ["x.pex"])


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("hdfs:///envs/no.pex", "env: there is no file hdfs:///envs/no.pex", ""),
        ("hdfs:///envs/folder.tar", "is a directory", "one file"),
        ("hdfs:///envs/folder.tar/", "is a directory", "one file"),
        ("hdfs:///envs/r.txt", "is of no kind that an environment is made from", ".tar.gz"),
        ("hdfs:///envs", "is of no kind", ".pex"),
        ("s3://bucket/x.pex", "is neither on this machine nor in HDFS", "copy it"),
        ("hdfs://nn:x/x.pex", "is not a URL of a file in HDFS: Port", ""),
    ],
)
def test_what_is_none(url: str, message: str, hint: str, hadoop_conf: dict[str, str]) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(url, hadoop_conf)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_without_a_hadoop_configuration_the_url_has_to_name_the_namenode() -> None:
    assert resolve("hdfs://nn:8020/envs/x.pex", {})
    for url in ("hdfs:///envs/x.pex", "hdfs://prod/envs/x.pex", "viewfs://my/x.pex"):
        with pytest.raises(SettingsError, match="no Hadoop configuration was found") as caught:
            resolve(url, {})
        assert "HADOOP_CONF_DIR" in (caught.value.hint or "")


def test_an_hdfs_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_downloads, "open_url", open_url)
    with pytest.raises(UnreachableError, match=r"cannot look at /x\.pex at hdfs://127\.0\.0\.1:1"):
        resolve("hdfs://127.0.0.1:1/x.pex", {})
