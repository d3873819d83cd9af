from __future__ import annotations

from pathlib import Path

import pytest

from tests.minicluster.conftest import FakeJava
from ytf.errors import SettingsError
from ytf.minicluster.directory import ClusterDirectory
from ytf.minicluster.java import find_java
from ytf.minicluster.jvm import Jvm, cds_archive, class_names, make_cds_archive
from ytf.minicluster.releases import Release

LOG = """\
[0.033s][info][class,load] java.lang.Object source: shared objects file
[0.4s][info][class,load] org.apache.hadoop.A$B source: file:/jars/a.jar
[0.5s][info][class,load] javax.net.X source: jrt:/java.base
[0.6s][info][class,load] org.A$$Lambda$14/0x00000008001d8440 source: org.A
[0.6s][info][class,load] com.sun.proxy.$Proxy5 source: jrt:/java.base
[0.6s][info][class,load] java.lang.Object source: shared objects file
[0.7s][info][class,load] made.by.Cglib source: __ClassLoader
something else
"""


@pytest.fixture
def jvm(tmp_path: Path, fake_java: FakeJava) -> Jvm:
    release = Release("3.4.3", tmp_path / "cache" / "3.4.3")
    return Jvm(find_java("3.4.3"), release, ClusterDirectory(tmp_path), 256, tmp_path / "lists")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "1.classes"
    log.write_text(LOG)
    return log


def test_what_can_be_archived(log: Path) -> None:
    assert class_names([log, log]) == [
        "java/lang/Object",
        "org/apache/hadoop/A$B",
        "javax/net/X",
    ]


def test_classes_are_noted_until_there_is_an_archive(
    jvm: Jvm, log: Path, fake_java: FakeJava
) -> None:
    def options() -> list[str]:
        words = jvm.command(Path("/conf"), "Main")
        return [word for word in words if word.startswith(("-Xlog", "-XX:Shared"))]

    assert [word.split(":")[0] for word in options()] == ["-Xlog"]
    fake_java('for w; do case $w in -XX:SharedArchiveFile=*) echo x >"${w#*=}"; exit ;; esac; done')
    make_cds_archive(jvm.release, jvm.java, [log])
    assert options()[0] == f"-XX:SharedArchiveFile={cds_archive(jvm.release, jvm.java)}"
    assert not any("class+load" in word for word in options())


def test_a_java_that_cannot_leaves_nothing(jvm: Jvm, log: Path, fake_java: FakeJava) -> None:
    before = sorted(jvm.release.directory.iterdir())
    fake_java('echo "no such thing as an archive"; exit 1')
    with pytest.raises(SettingsError, match=r"cannot make .*: no such thing as an archive"):
        make_cds_archive(jvm.release, jvm.java, [log])
    assert sorted(jvm.release.directory.iterdir()) == before
