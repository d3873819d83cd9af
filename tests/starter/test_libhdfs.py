"""What libhdfs needs is found on a node with Hadoop, by a stand-in for the command ``hadoop``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.starter.fake_master import FakeMaster
from tests.starter.steps import Start
from ytf.processes import start_ticks
from ytf.starter.libhdfs import LibhdfsError, LibhdfsSearch, libhdfs_variables
from ytf.testing.waiting import eventually

# As Hadoop's own: it knows what lies beside it, does not follow a link, and complains on stdout.
HADOOP = """#!/bin/sh
[ "$1 $2" = "classpath --glob" ] || exit 9
config="$(dirname "$0")/../libexec/hadoop-config.sh"
[ -f "$config" ] || { echo "ERROR: Cannot execute $config."; exit 1; }
[ -n "$JAVA_HOME" ] || { echo "ERROR: JAVA_HOME is not set" >&2; exit 1; }
echo "${HADOOP_CONF_DIR:-/hadoop/conf}:/hadoop/a.jar:/hadoop/b.jar"
"""


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def make_library(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "libhdfs.so").touch()
    return folder


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A Java 11: its home."""
    make_program(tmp_path / "java" / "bin" / "java")
    library = tmp_path / "java" / "lib" / "server" / "libjvm.so"
    library.parent.mkdir(parents=True)
    library.touch()
    return tmp_path / "java"


@pytest.fixture
def hadoop(tmp_path: Path) -> Path:
    """A Hadoop with native libraries: its home."""
    home = tmp_path / "hadoop"
    make_program(home / "bin" / "hadoop", HADOOP)
    make_program(home / "libexec" / "hadoop-config.sh")
    make_library(home / "lib" / "native")
    return home


def test_all_is_found_from_the_path(tmp_path: Path, hadoop: Path, java: Path) -> None:
    # As packages install them: links in one directory of programs.
    programs = tmp_path / "usr bin"
    programs.mkdir()
    (programs / "hadoop").symlink_to(hadoop / "bin" / "hadoop")
    (programs / "java").symlink_to(java / "bin" / "java")
    path = f"{programs}:/bin:/usr/bin"
    assert libhdfs_variables({"PATH": path}) == {
        "CLASSPATH": "/hadoop/conf:/hadoop/a.jar:/hadoop/b.jar",
        "JAVA_HOME": str(java),
        "HADOOP_HDFS_HOME": str(hadoop),
        "LD_LIBRARY_PATH": f"{java}/lib/server:{hadoop}/lib/native",
    }


def test_what_the_program_has_already_stays(hadoop: Path, java: Path) -> None:
    given = {
        "PATH": "/bin:/usr/bin",
        "HADOOP_HOME": str(hadoop),
        "HADOOP_HDFS_HOME": "/elsewhere",
        "JAVA_HOME": str(java),
        "CLASSPATH": "/own.jar",
        "LD_LIBRARY_PATH": f"/cuda:{java}/lib/server",
    }
    assert libhdfs_variables(given) == {
        "CLASSPATH": "/own.jar",
        "JAVA_HOME": str(java),
        "HADOOP_HDFS_HOME": "/elsewhere",
        "LD_LIBRARY_PATH": f"/cuda:{java}/lib/server:{hadoop}/lib/native",
    }


def test_packages_with_a_directory_for_each_part(tmp_path: Path, hadoop: Path, java: Path) -> None:
    parcel = tmp_path / "parcel"
    (parcel / "lib").mkdir(parents=True)
    hadoop = hadoop.rename(parcel / "lib" / "hadoop")
    given = {
        "PATH": "/bin:/usr/bin",
        "HADOOP_HDFS_HOME": f"{parcel}/lib/hadoop-hdfs",
        "HADOOP_COMMON_HOME": str(hadoop),
        "JAVA_HOME": str(java),
    }
    made = libhdfs_variables(given)
    assert made["HADOOP_HDFS_HOME"] == f"{parcel}/lib/hadoop-hdfs"
    assert made["LD_LIBRARY_PATH"] == f"{java}/lib/server:{hadoop}/lib/native"

    (hadoop / "lib" / "native" / "libhdfs.so").unlink()
    make_library(parcel / "lib64")
    made = libhdfs_variables(given)
    assert made["LD_LIBRARY_PATH"] == f"{java}/lib/server:{hadoop}/lib/native:{parcel}/lib64"


def test_a_hadoop_without_the_library(
    tmp_path: Path, hadoop: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hadoop / "lib" / "native" / "libhdfs.so").unlink()
    given = {"PATH": f"{hadoop}/bin:/bin", "JAVA_HOME": str(java)}
    with pytest.raises(LibhdfsError, match=rf"no libhdfs\.so in .*{hadoop}/lib/native, nor"):
        libhdfs_variables(given)
    # An image may have it.
    assert LibhdfsSearch(given, in_image=True).finish()["CLASSPATH"]
    # The program may have its own.
    own = make_library(tmp_path / "own")
    assert libhdfs_variables({**given, "LD_LIBRARY_PATH": str(own)})
    assert libhdfs_variables({**given, "ARROW_LIBHDFS_DIR": str(own)})
    # The system's loader may know it.
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"libhdfs.so.0\0/opt/lib/libhdfs.so.0\0/opt/lib/libhdfs.so\0")
    monkeypatch.setattr("ytf.starter.libhdfs._LOADER_CACHE", str(cache))
    assert libhdfs_variables(given)


def test_java_8(tmp_path: Path, hadoop: Path) -> None:
    library = tmp_path / "java8" / "jre" / "lib" / "amd64" / "server" / "libjvm.so"
    library.parent.mkdir(parents=True)
    library.touch()
    made = libhdfs_variables(
        {"PATH": "/bin", "HADOOP_HOME": str(hadoop), "JAVA_HOME": str(tmp_path / "java8" / "jre")}
    )
    assert str(library.parent) in made["LD_LIBRARY_PATH"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho 'Error: no jars' >&2; exit 3\n", "ended with 3: Error: no jars"),
        ("#!/bin/sh\necho 'ERROR: no config'; exit 1\n", "ended with 1: ERROR: no config"),
        ("#!/bin/sh\n", "ended with 0: it printed nothing"),
        ("#!/not/there\n", "hadoop fails"),
        ("#!/bin/sh\nhead -c 140000 /dev/zero | tr '\\0' j\n", "140000 bytes"),
    ],
)
def test_a_hadoop_that_is_broken(hadoop: Path, java: Path, text: str, message: str) -> None:
    (hadoop / "bin" / "hadoop").write_text(text)
    with pytest.raises(LibhdfsError, match=message):
        libhdfs_variables(
            {"PATH": "/bin:/usr/bin", "HADOOP_HOME": str(hadoop), "JAVA_HOME": str(java)}
        )


def test_a_node_without_hadoop_or_java(tmp_path: Path, hadoop: Path) -> None:
    with pytest.raises(LibhdfsError, match="no command hadoop"):
        libhdfs_variables({"PATH": str(tmp_path)})
    with pytest.raises(LibhdfsError, match="no command java"):
        libhdfs_variables({"PATH": str(tmp_path), "HADOOP_HOME": str(hadoop)})
    with pytest.raises(LibhdfsError, match=r"no libjvm\.so"):
        libhdfs_variables(
            {"PATH": str(tmp_path), "HADOOP_HOME": str(hadoop), "JAVA_HOME": str(tmp_path)}
        )


def test_a_search_that_is_given_up_leaves_no_process(
    tmp_path: Path, hadoop: Path, java: Path
) -> None:
    started = tmp_path / "started"
    (hadoop / "bin" / "hadoop").write_text(
        f"#!/bin/sh\nsleep 1000 & echo $! >{started}.new; mv {started}.new {started}; wait\n"
    )
    search = LibhdfsSearch(
        {"PATH": "/bin:/usr/bin", "HADOOP_HOME": str(hadoop), "JAVA_HOME": str(java)}
    )
    eventually(started.exists, describe="hadoop runs")
    search.kill()
    with pytest.raises(LibhdfsError, match="ended with -9"):
        search.finish()
    below = int(started.read_text())
    eventually(lambda: start_ticks(below) is None, describe="what hadoop started is dead")


def test_a_programs_jars_come_with_the_configuration_that_it_has(
    tmp_path: Path, hadoop: Path, java: Path, master: FakeMaster, start: Start
) -> None:
    # The node names none, so it is the submitter's.
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text("<configuration/>")
    starter = start(
        'echo "$HADOOP_CONF_DIR $CLASSPATH"',
        libhdfs=True,
        hadoop_conf=str(conf),
        environ={"HADOOP_HOME": str(hadoop), "JAVA_HOME": str(java)},
    )
    master.meet()
    assert master.expect("exited", 0)["exit_code"] == 0
    assert starter.output() == f"{conf} {conf}:/hadoop/a.jar:/hadoop/b.jar\n"
