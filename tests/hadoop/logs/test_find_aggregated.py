"""Aggregated logs are found where any release of Hadoop puts them."""

from __future__ import annotations

import pytest

from tests.hadoop.logs.made_tfiles import BytesSource
from ytf.errors import NotFoundError
from ytf.hadoop.conf import Configuration
from ytf.hadoop.logs import AggregatedFile, LogFormatError, find_aggregated

APP = "application_1700000000000_12345"
CONF = {"yarn.nodemanager.remote-app-log-dir": "/logs"}


class Tree:
    """Directories and the names in them."""

    def __init__(self, directories: dict[str, list[str]]) -> None:
        self._directories = directories

    def names(self, directory: str) -> list[str]:
        try:
            return self._directories[directory]
        except KeyError:
            raise FileNotFoundError(directory) from None

    def source(self, path: str) -> BytesSource:
        raise AssertionError(f"{path} is found by its name, not read")


def find(directory: str, conf: dict[str, str] = CONF) -> list[AggregatedFile]:
    names = ["n1_8041", "n_2.x_8041_1700000000001", "n3_8041.tmp"]
    return find_aggregated(Tree({directory: names}), Configuration.of(conf), "alice", APP)


@pytest.mark.parametrize(
    "directory",
    [
        f"/logs/alice/bucket-logs-tfile/2345/{APP}",
        f"/logs/alice/logs-tfile/{APP}",
        f"/logs/alice/logs/{APP}",
    ],
)
def test_every_layout(directory: str) -> None:
    assert find(directory) == [
        AggregatedFile("n1:8041", f"{directory}/n1_8041"),
        AggregatedFile("n_2.x:8041", f"{directory}/n_2.x_8041_1700000000001"),
    ]


@pytest.mark.parametrize(
    ("conf", "directory"),
    [
        ({}, f"/tmp/logs/alice/bucket-logs-tfile/2345/{APP}"),
        (
            {"yarn.nodemanager.remote-app-log-dir": "hdfs://nn:8020/x/"},
            f"/x/alice/bucket-logs-tfile/2345/{APP}",
        ),
        (
            {**CONF, "yarn.nodemanager.remote-app-log-dir-suffix": "l"},
            f"/logs/alice/bucket-l-tfile/2345/{APP}",
        ),
        (
            {**CONF, "yarn.log-aggregation.TFile.remote-app-log-dir-suffix": "l"},
            f"/logs/alice/bucket-l/2345/{APP}",
        ),
    ],
)
def test_every_setting(conf: dict[str, str], directory: str) -> None:
    assert len(find(directory, conf)) == 2


@pytest.mark.parametrize("where", [f"bucket-logs-ifile/2345/{APP}", f"logs-ifile/{APP}"])
def test_indexed_files_are_not_read_and_it_is_said(where: str) -> None:
    with pytest.raises(LogFormatError, match="indexed files") as caught:
        find(f"/logs/alice/{where}")
    assert caught.value.hint == f"yarn logs -applicationId {APP}"


def test_none() -> None:
    with pytest.raises(NotFoundError, match=f"no aggregated logs of {APP} of user alice"):
        find("/elsewhere")
    with pytest.raises(NotFoundError, match="'x' is not the id"):
        find_aggregated(Tree({}), Configuration.of(CONF), "alice", "x")
