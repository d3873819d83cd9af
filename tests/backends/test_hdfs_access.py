"""Which HDFS paths a job names, and what its submitter is told of clusters that do not answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import msgspec
import pytest

from ytf.backends.api import Plan
from ytf.backends.hdfs_access import check_hdfs_access, find_silent, hdfs_urls
from ytf.errors import UnreachableError
from ytf.hadoop.conf import Configuration
from ytf.specs.job import Framework, JobSpec, TaskGroupSpec

SPEC = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="python train.py")


def plan(**fields: object) -> Plan:
    return Plan(spec=msgspec.structs.replace(SPEC, **fields), backend="local", user="alice")


def test_urls_are_found_in_paths_commands_and_variables() -> None:
    spec = msgspec.structs.replace(
        SPEC,
        input="hdfs://users/user1/data",
        output="/local",
        command="""python train.py --a=hdfs://nn:8020/a,viewfs://c/b --b "hdfs:///x y" webhdfs://no/x""",
        task_env={"DATA": "hdfs://users/user1/data"},
        groups={"worker": TaskGroupSpec(count=1, command="cat (hdfs://other/f)")},
    )
    assert hdfs_urls(spec) == [
        "hdfs://users/user1/data",
        "hdfs://nn:8020/a",
        "viewfs://c/b",
        "hdfs:///x",
        "hdfs://other/f",
    ]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers, as a NameNode that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_each_reason_is_told(silent_port: int, closed_port: int) -> None:
    conf = Configuration.of({"fs.viewfs.mounttable.c.link./a": f"hdfs://127.0.0.1:{closed_port}/a"})
    urls = [
        "hdfs://users.invalid/user1/data",
        f"hdfs://127.0.0.1:{closed_port}/x",
        f"hdfs://127.0.0.1:{silent_port}/x",
        "hdfs:///x",
        "viewfs://c/a",
        "viewfs://d/a",
        "hdfs://[broken/x",
    ]
    began = time.monotonic()
    found = dict(find_silent(urls, conf, limit_s=1.5))
    assert time.monotonic() - began < 5, "all are asked at once, and for a bounded time"
    assert list(found) == urls
    assert "users.invalid is neither a nameservice" in found[urls[0]]
    assert f"127.0.0.1:{closed_port}" in found[urls[1]]
    assert found[urls[2]] == "there is no answer within 1.5 s"
    assert "fs.defaultFS" in found[urls[3]]
    assert f"127.0.0.1:{closed_port}" in found[urls[4]]
    assert "is in no mount of Hadoop's configuration" in found[urls[5]]


def test_those_that_answer_are_not_told() -> None:
    def look(url: str, conf: Configuration) -> None:
        if "down" in url:
            raise UnreachableError("it is down")

    urls = ["hdfs://up/a", "hdfs://down/a"]
    assert find_silent(urls, Configuration.of({}), look) == [("hdfs://down/a", "it is down")]


@pytest.mark.parametrize(
    "fields",
    [
        {"input": "hdfs://nobody.invalid/x", "framework": Framework.PYTORCH},
        {"input": "/data"},
        {"input": "hdfs://$NAMENODE/x"},
    ],
)
def test_what_is_not_asked(fields: dict[str, object]) -> None:
    told: list[str] = []
    check_hdfs_access(plan(**fields), told.append, Configuration.of({}))
    assert told == []


def test_a_submitter_is_told_once_for_each_cluster(closed_port: int) -> None:
    told: list[str] = []
    cluster = f"hdfs://127.0.0.1:{closed_port}"
    job = plan(input=f"{cluster}/in", output=f"{cluster}/out")
    check_hdfs_access(job, told.append, Configuration.of({}))
    assert len(told) == 1
    assert told[0].startswith(f"{cluster}/in cannot be opened from here: ")


def test_a_broken_configuration_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/not/there")
    told: list[str] = []
    check_hdfs_access(plan(input="hdfs://nn/x"), told.append)
    assert len(told) == 1
    assert "HADOOP_CONF_DIR names /not/there" in told[0]
