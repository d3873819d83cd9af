"""Every task numbers the processes of a cluster spec alike."""

from __future__ import annotations

import pytest

from tests.frameworks.tasks import MEMBERS, make_task
from ytf.frameworks.ranks import hostfile, ranks_of

RANKED = [("chief", 1), ("worker", 2)]


@pytest.mark.parametrize(
    ("group", "index", "node", "first", "local_size"),
    [("chief", 0, 0, 0, 1), ("worker", 0, 1, 1, 2), ("worker", 1, 2, 3, 2)],
)
def test_ranks_follow_the_groups_the_tasks_and_their_processes(
    group: str, index: int, node: int, first: int, local_size: int
) -> None:
    ranks = ranks_of(make_task(group, index, processes=local_size, ranked=RANKED), MEMBERS)
    assert (ranks.node, ranks.first, ranks.local_size) == (node, first, local_size)
    assert ranks.size == 5
    assert ranks.addresses == ["a:1", "b:2", "b:3"]
    assert (ranks.first_host, ranks.first_port) == ("a", 1)


@pytest.mark.parametrize("group", ["evaluator", "tensorboard"])
def test_a_task_outside_the_ranked_groups_is_alone(group: str) -> None:
    ranks = ranks_of(make_task(group, 0, host="me", port=9, processes=2, ranked=RANKED), MEMBERS)
    assert (ranks.addresses, ranks.node, ranks.first, ranks.size) == (["me:9"], 0, 0, 2)


def test_a_task_whose_group_the_spec_lacks_is_alone() -> None:
    ranks = ranks_of(make_task("worker", 0, host="me", port=9, ranked=RANKED), {})
    assert (ranks.addresses, ranks.size) == (["me:9"], 1)


def test_a_group_that_began_with_fewer_tasks_has_no_gap() -> None:
    members = {"chief": ["a:1"], "worker": ["b:2"]}
    ranks = ranks_of(make_task("worker", 0, processes=2, ranked=RANKED), members)
    assert (ranks.size, ranks.first) == (3, 1)


def test_an_ipv6_host_has_no_brackets() -> None:
    members = {"worker": ["[fe80::1]:7"]}
    ranks = ranks_of(make_task("worker", 0, ranked=[("worker", 1)]), members)
    assert (ranks.first_host, ranks.first_port) == ("fe80::1", 7)


def test_the_hostfile_has_each_host_once_with_the_processes_on_it() -> None:
    ranks = ranks_of(make_task("chief", 0, ranked=RANKED), MEMBERS)
    assert hostfile(ranks) == "a slots=1\nb slots=4\n"
