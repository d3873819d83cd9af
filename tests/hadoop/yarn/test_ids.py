"""Ids as YARN writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ytf.hadoop.yarn.ids import ApplicationId, AttemptId, ContainerId, NodeId

APPLICATIONS = st.builds(ApplicationId, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
ATTEMPTS = st.builds(AttemptId, APPLICATIONS, st.integers(0, 2**31 - 1))
CONTAINERS = st.builds(ContainerId, ATTEMPTS, st.integers(0, 2**40 - 1), st.integers(0, 2**23 - 1))

APP = ApplicationId(1410901177871, 1)


def test_as_yarn_writes_them() -> None:
    attempt = AttemptId(APP, 1)
    assert str(APP) == "application_1410901177871_0001"
    assert str(attempt) == "appattempt_1410901177871_0001_000001"
    assert str(ContainerId(attempt, 5)) == "container_1410901177871_0001_01_000005"
    assert str(ContainerId(attempt, 5, 17)) == "container_e17_1410901177871_0001_01_000005"
    assert str(ApplicationId(1, 123456)) == "application_1_123456"


@given(APPLICATIONS)
def test_applications_round_trip(app: ApplicationId) -> None:
    assert ApplicationId.parse(str(app)) == app
    assert ApplicationId.from_message(app.to_message()) == app


@given(ATTEMPTS)
def test_attempts_round_trip(attempt: AttemptId) -> None:
    assert AttemptId.parse(str(attempt)) == attempt
    assert AttemptId.from_message(attempt.to_message()) == attempt


@given(CONTAINERS)
def test_containers_round_trip(container: ContainerId) -> None:
    assert ContainerId.parse(str(container)) == container
    assert ContainerId.from_message(container.to_message()) == container


def test_the_epoch_is_in_the_high_bits() -> None:
    message = ContainerId(AttemptId(APP, 2), 5, 3).to_message()
    assert message.id == (3 << 40) + 5
    message.id = -1
    assert ContainerId.from_message(message).number == 2**40 - 1


def test_nodes() -> None:
    assert NodeId.parse("host.example:45454") == NodeId("host.example", 45454)
    assert str(NodeId("h", 1)) == "h:1"


@pytest.mark.parametrize(
    "text",
    ["", "application_1_1", "application_x_0001", "application_1_0001 ", "container_1_0001",
     "application_1_0001_000001", "local_1"],
)  # fmt: skip
def test_what_is_no_id(text: str) -> None:
    for kind in (ApplicationId, AttemptId, ContainerId):
        with pytest.raises(ValueError, match="is not a"):
            kind.parse(text)
