"""What a ResourceManager tells, as lines of ``ytf doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from tests.backends.yarn.fake_cluster import node_report
from ytf.backends.yarn.doctor import yarn_checks
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.yarn_checks import YarnChecks
from ytf.backends.yarn.submit.admission import AttemptLimit
from ytf.hadoop.conf import Configuration
from ytf.hadoop.yarn.records import NodeReport, NodeState, Resource
from ytf.specs.checks import CheckState


class FakeRm:
    """A ResourceManager with these nodes."""

    def __init__(self, nodes: Sequence[NodeReport]) -> None:
        self.nodes = nodes

    def call(self, request: object) -> Sequence[NodeReport]:
        return self.nodes


class FakeCluster:
    def __init__(self, *nodes: NodeReport, **values: str) -> None:
        self.conf = Configuration.of({k.replace("_", "."): v for k, v in values.items()}, {})
        self.rm = FakeRm(nodes)


def checks(*nodes: NodeReport) -> YarnChecks:
    return YarnChecks(cast("Cluster", FakeCluster(*nodes)), "default")


def test_what_is_free_on_the_nodes() -> None:
    busy = msgspec.structs.replace(node_report(), used=Resource(4608, 9))
    found = checks(node_report(), busy).nodes()
    assert found.state is CheckState.OK
    # More vcores than there are can be in use: YARN need not count them.
    assert found.text == "2 nodes with 16 GiB and 16 vcores; free: 11.5 GiB and 7 vcores"


def test_a_sick_node_is_noted_with_its_reason() -> None:
    sick = msgspec.structs.replace(
        node_report(NodeState.UNHEALTHY), health="1/1 local-dirs are bad\n"
    )
    found = checks(node_report(), sick, node_report(NodeState.LOST)).nodes()
    assert found.state is CheckState.NOTE
    assert found.text.endswith("; node7:8041 is unhealthy: 1/1 local-dirs are bad and 1 more")


def test_a_cluster_without_nodes_fails() -> None:
    assert checks().nodes().text == "no node can run containers"
    found = checks(node_report(NodeState.LOST), node_report(NodeState.DECOMMISSIONED)).nodes()
    assert found.state is CheckState.FAILED
    assert found.text == "no node can run containers: node7:8041 is lost"


@pytest.mark.parametrize(
    ("limit", "state"),
    [
        (None, CheckState.NOTE),
        (AttemptLimit(attempts=2, setting="some.setting"), CheckState.NOTE),
        (AttemptLimit(attempts=4, setting="some.setting"), CheckState.OK),
    ],
)
def test_how_often_a_master_is_started(
    limit: AttemptLimit | None, state: CheckState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(conf: Any) -> AttemptLimit | None:
        return limit

    monkeypatch.setattr(yarn_checks, "read_attempt_limit", read)
    found = checks().master_attempts()
    assert found.state is state
    if limit is not None and state is CheckState.NOTE:
        assert "up to 2 for each job, fewer than the 4" in found.text
        assert "some.setting" in (found.hint or "")


@pytest.mark.parametrize(
    ("told", "own", "state"),
    [
        ("true", "false", CheckState.OK),
        ("false", "true", CheckState.NOTE),
        (None, "true", CheckState.OK),
        (None, "false", CheckState.NOTE),
    ],
)
def test_the_cluster_knows_better_whether_logs_are_aggregated(
    told: str | None, own: str, state: CheckState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(conf: Any, name: str, timeout_s: float) -> str | None:
        return told

    monkeypatch.setattr(yarn_checks, "read_rm_setting", read)
    fake = FakeCluster()
    fake.conf = Configuration.of({"yarn.log-aggregation-enable": own}, {})
    assert YarnChecks(cast("Cluster", fake), "default").log_aggregation().state is state


def test_a_clock_that_nobody_tells_is_a_note() -> None:
    assert checks().clock().state is CheckState.NOTE
