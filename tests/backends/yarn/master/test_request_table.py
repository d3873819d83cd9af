"""Single requests become absolute counts, and messages tell users what is outstanding."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.backends.yarn.fake_cluster import node
from ytf.backends.yarn.container_requests import GPU, YarnProfile
from ytf.backends.yarn.master.request_table import (
    FIRST_MESSAGE_S,
    NEXT_MESSAGE_S,
    AllocationMessages,
    RequestTable,
)
from ytf.hadoop.yarn.allocate_request import ANYWHERE, ResourceRequest
from ytf.hadoop.yarn.records import NodeState, Resource
from ytf.specs.ids import RequestId
from ytf.specs.job import Placement

SMALL, LARGE = Resource(128, 1), Resource(4096, 2)
PROFILES = (
    YarnProfile(1, "worker", SMALL),
    YarnProfile(2, "worker", LARGE),
    YarnProfile(3, "ps", SMALL),
)
PLACED = (
    YarnProfile(4, "apart", SMALL, None, Placement.APART),
    YarnProfile(5, "spread", SMALL, None, Placement.SPREAD),
    YarnProfile(6, "pack", LARGE, None, Placement.PACK),
)


def counts(asks: list[ResourceRequest]) -> dict[str, int]:
    return {ask.place: ask.count for ask in asks}


def test_one_request_is_counted_once() -> None:
    table = RequestTable()
    table.add(RequestId("a"), PROFILES[0])
    table.add(RequestId("a"), PROFILES[0])
    [ask] = table.changes()
    assert (ask.place, ask.count, ask.resource) == (ANYWHERE, 1, SMALL)
    assert table.changes() == []


def test_hosts_that_have_room_are_named_with_their_rack() -> None:
    nodes = (node(1), node(2, free_mb=64), node(3, state=NodeState.LOST))
    table = RequestTable()
    for name in "ab":
        table.add(RequestId(name), PROFILES[0])
    table.choose_hosts(nodes, str)
    assert counts(table.changes()) == {"host:1": 2, "/rack": 2, ANYWHERE: 2}
    table.heartbeat_passed(1)
    assert counts(table.changes()) == {"host:1": 0, "/rack": 0}


def test_a_label_goes_with_anywhere_and_only_its_nodes_are_named() -> None:
    table = RequestTable()
    table.add(RequestId("a"), YarnProfile(1, "worker", SMALL, "gpu"))
    table.add(RequestId("b"), YarnProfile(2, "ps", SMALL, ""))
    table.choose_hosts([node(1), node(2, labels=("gpu",))], str)
    asks = table.changes()
    assert {(ask.priority, ask.place, ask.node_label) for ask in asks} == {
        (1, "host:2", None), (1, "/rack", None), (1, ANYWHERE, "gpu"),
        (2, "host:1", None), (2, "/rack", None), (2, ANYWHERE, ""),
    }  # fmt: skip


def strictness(asks: list[ResourceRequest]) -> dict[str, bool]:
    return {ask.place: ask.relax_locality for ask in asks}


def test_tasks_apart_have_one_place_on_each_host_until_it_is_free_again() -> None:
    nodes = (node(1), node(2, free_mb=128), node(3))
    table = RequestTable(PLACED)
    for name in "abc":
        table.add(RequestId(name), PLACED[0])
    table.choose_hosts(nodes, str)
    asks = table.changes()
    assert counts(asks) == {"host:1": 1, "host:2": 1, "host:3": 1, "/rack": 3, ANYWHERE: 3}
    assert strictness(asks)["/rack"] is strictness(asks)[ANYWHERE] is False
    assert table.allocated(PLACED[0].priority, "host:2") == "a"
    table.heartbeat_passed(1)
    table.choose_hosts(nodes, str)
    assert table.changes() == []
    assert table.held("apart") == {"host:2": 1}
    table.completed(PLACED[0].priority, "host:2")
    table.choose_hosts(nodes, str)
    assert counts(table.changes()) == {"host:2": 1}


def test_an_inherited_container_keeps_its_host_to_itself() -> None:
    table = RequestTable(PLACED)
    table.recovered(PLACED[0].priority, "host:1")
    table.add(RequestId("b"), PLACED[0])
    table.choose_hosts((node(1), node(2)), str)
    assert counts(table.changes()) == {"host:2": 1, "/rack": 1, ANYWHERE: 1}


def test_a_plan_is_kept_to_until_it_is_given_up() -> None:
    table = RequestTable(PLACED)
    for name in "abc":
        table.add(RequestId(name), PLACED[1])
    table.choose_hosts((node(1), node(2)), str)
    asks = table.changes()
    assert counts(asks) == {"host:1": 2, "host:2": 1, "/rack": 3, ANYWHERE: 3}
    assert not strictness(asks)[ANYWHERE]
    table.heartbeat_passed(1)
    asks = table.changes()
    assert counts(asks) == {"host:1": 0, "host:2": 0, "/rack": 0, ANYWHERE: 3}
    assert strictness(asks)[ANYWHERE]


def test_a_plan_that_failed_is_followed_by_none_that_is_insisted_on() -> None:
    table = RequestTable(PLACED)
    table.add(RequestId("a"), PLACED[1])
    table.choose_hosts((node(1),), str)
    table.changes()
    for _ in range(3):
        table.heartbeat_passed(3)
    assert strictness(table.changes())[ANYWHERE]
    # A node that comes is named, and no more: it may be as full as the first.
    table.choose_hosts((node(1), node(2, free_mb=16384)), str)
    asks = table.changes()
    assert counts(asks) == {"host:2": 1, "/rack": 1}
    assert all(strictness(asks).values())
    table.heartbeat_passed(3)
    assert counts(table.changes()) == {"host:2": 0, "/rack": 0}


def test_profiles_are_relaxed_one_by_one() -> None:
    table = RequestTable(PLACED)
    table.add(RequestId("a"), PLACED[1])
    table.choose_hosts((node(1),), str)
    table.heartbeat_passed(2)
    for name in "bc":
        table.add(RequestId(name), PLACED[2])
    table.choose_hosts((node(1),), str)
    assert not any(ask.relax_locality for ask in table.changes() if ask.place == ANYWHERE)
    # That one of them got something is no comfort to the other.
    assert table.allocated(PLACED[2].priority, "host:1") == "b"
    table.heartbeat_passed(2)
    assert {ask.priority for ask in table.changes() if ask.place == ANYWHERE} == {
        PLACED[1].priority
    }
    assert table.allocated(PLACED[2].priority, "host:1") == "c"


def test_what_is_planned_for_one_profile_is_not_there_for_the_next() -> None:
    first, second = (
        YarnProfile(1, "a", LARGE, None, Placement.PACK),
        YarnProfile(2, "b", LARGE, None, Placement.PACK),
    )
    table = RequestTable()
    for name in "abcd":
        table.add(RequestId(name), first if name < "c" else second)
    table.choose_hosts((node(1), node(2)), str)
    found = {ask.priority: ask.place for ask in table.changes() if ask.place.startswith("host")}
    assert sorted(found.values()) == ["host:1", "host:2"]


def test_hosts_to_avoid_are_not_named() -> None:
    table = RequestTable()
    table.add(RequestId("a"), PLACED[0])
    table.choose_hosts((node(1), node(2)), str, {"host:1"})
    assert "host:1" not in counts(table.changes())


def test_a_profile_that_appears_at_run_time_does_not_move_the_others() -> None:
    table = RequestTable(PROFILES[:2])
    table.recovered(PROFILES[0].priority, "host:1")
    late = YarnProfile(9, "worker", Resource(8192, 2))
    table.add(RequestId("retry"), late)
    assert [ask.priority for ask in table.changes()] == [9]
    assert table.allocated(9, "host:2") == "retry"
    table.completed(PROFILES[0].priority, "host:1")
    assert table.held("worker") == {"host:2": 1}


def test_a_container_answers_the_oldest_request_of_its_profile() -> None:
    table = RequestTable()
    for name in "abc":
        table.add(RequestId(name), PROFILES[0])
    table.add(RequestId("ps"), PROFILES[2])
    first, other = table.changes()
    assert first.priority != other.priority
    assert table.allocated(first.priority, "host:1") == "a"
    table.cancel(RequestId("b"))
    assert table.allocated(first.priority, "host:1") == "c"
    assert table.allocated(first.priority, "host:1") is None
    assert table.allocated(99, "host:1") is None
    assert table.outstanding == 1


def test_what_the_scheduler_counts_off_is_not_said_again() -> None:
    nodes = (node(1), node(2))
    table = RequestTable()
    for name in "abc":
        table.add(RequestId(name), PROFILES[0])
    table.choose_hosts(nodes, str)
    priority = table.changes()[0].priority
    table.allocated(priority, "host:1")
    # Of the hosts only the one that gave it was counted off; the other must hear of it.
    assert counts(table.changes()) == {"host:2": 2}


def test_everything_is_said_again_to_who_has_forgotten() -> None:
    table = RequestTable()
    table.add(RequestId("a"), PROFILES[0])
    table.add(RequestId("b"), PROFILES[1])
    said = table.changes()
    assert table.everything() == said


def test_tasks_to_keep_apart_come_from_named_hosts_only_also_before_hosts_are_chosen() -> None:
    table = RequestTable()
    table.add(RequestId("a"), PLACED[0])
    [ask] = table.changes()
    assert (ask.place, ask.count, ask.relax_locality) == (ANYWHERE, 1, False)


def with_gpus(priority: int, group: str, gpus: int, placement: Placement) -> YarnProfile:
    return YarnProfile(priority, group, Resource(128, 1, {GPU: gpus}), "fast", placement)


def test_a_host_gets_no_more_containers_than_it_has_gpus_for() -> None:
    worker, other = (with_gpus(n, "worker", 1, Placement.ANY) for n in (1, 2))
    nodes = [node(port, labels=("fast",)) for port in (1, 2)]
    table = RequestTable(gpus_per_node=2)
    for name in "abcd":
        table.add(RequestId(name), worker)
    table.add(RequestId("e"), other)
    table.choose_hosts(nodes, str)
    asks = table.changes()
    # All GPUs may be the first profile's: the second one's request waits.
    assert counts([ask for ask in asks if ask.priority == 1]) == {
        "host:1": 2, "host:2": 2, "/rack": 4, ANYWHERE: 4,
    }  # fmt: skip
    assert counts([ask for ask in asks if ask.priority == 2]) == {ANYWHERE: 1}
    assert not any(ask.relax_locality for ask in asks if not ask.place.startswith("host"))
    # YARN is not asked for what it does not count.
    assert {ask.resource for ask in asks} == {SMALL}
    for _ in range(3):
        table.allocated(1, "host:1")
    table.cancel(RequestId("d"))
    table.heartbeat_passed(1)
    table.choose_hosts(nodes, str)
    assert counts([ask for ask in table.changes() if ask.priority == 2]) == {
        "host:2": 1, "/rack": 1,
    }  # fmt: skip


def test_gpus_of_an_inherited_container_are_taken() -> None:
    worker = with_gpus(1, "worker", 2, Placement.SPREAD)
    table = RequestTable([worker], gpus_per_node=3)
    table.recovered(1, "host:1")
    table.add(RequestId("a"), worker)
    nodes = [node(port, labels=("fast",)) for port in (1, 2)]
    table.choose_hosts(nodes[:1], str)
    assert counts(table.changes()) == {ANYWHERE: 1}
    table.choose_hosts(nodes, str)
    assert counts(table.changes()) == {"host:2": 1, "/rack": 1}
    table.cancel(RequestId("a"))
    table.completed(1, "host:1")
    table.add(RequestId("b"), worker)
    table.choose_hosts(nodes[:1], str)
    assert counts(table.changes())["host:1"] == 1


class Scheduler(RuleBasedStateMachine):
    """A scheduler that keeps absolute counts, as the CapacityScheduler does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RequestTable()
        self.requests: dict[RequestId, YarnProfile] = {}
        self.made = 0
        self.counts: dict[tuple[int, str], int] = {}
        self.relaxed: dict[tuple[int, str], bool] = {}
        self.there: Counter[tuple[YarnProfile, int, str]] = Counter()
        self.sizes: dict[int, Resource] = {}
        self.nodes = (node(1), node(2, free_mb=1024))

    @rule(profile=st.sampled_from((*PROFILES, *PLACED)), many=st.integers(1, 4))
    def add(self, profile: YarnProfile, many: int) -> None:
        for _ in range(many):
            self.made += 1
            request = RequestId(str(self.made))
            self.table.add(request, profile)
            self.requests[request] = profile

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.requests)))
        self.table.cancel(request)
        del self.requests[request]

    @rule()
    def choose_hosts(self) -> None:
        self.table.choose_hosts(self.nodes, str)

    @rule(relax_after=st.integers(1, 3))
    def heartbeat_passed(self, relax_after: int) -> None:
        self.table.heartbeat_passed(relax_after)

    @rule(forgets=st.booleans())
    def beat(self, forgets: bool) -> None:
        if forgets:
            self.counts = {}
        for ask in self.table.everything() if forgets else self.table.changes():
            assert self.sizes.setdefault(ask.priority, ask.resource) == ask.resource
            self.counts[ask.priority, ask.place] = ask.count
            self.relaxed[ask.priority, ask.place] = ask.relax_locality
        self.check_counts()

    @rule(data=st.data())
    def allocate(self, data: st.DataObject) -> None:
        due = sorted(p for (p, place), n in self.counts.items() if place == ANYWHERE and n)
        if not due:
            return
        priority = data.draw(st.sampled_from(due))
        host = data.draw(st.sampled_from(["host:1", "host:2"]))
        if not self.counts.get((priority, host)) and not self.relaxed[priority, ANYWHERE]:
            return
        for place in (host, "/rack", ANYWHERE):
            if self.counts.get((priority, place)):
                self.counts[priority, place] -= 1
        request = self.table.allocated(priority, host)
        if request is not None:
            profile = self.requests.pop(request)
            assert profile.resource == self.sizes[priority]
            self.there[profile, priority, host] += 1

    @precondition(lambda self: +self.there)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        profile, priority, host = data.draw(st.sampled_from(sorted(+self.there, key=repr)))
        self.there[profile, priority, host] -= 1
        self.table.completed(priority, host)

    def check_counts(self) -> None:
        wanted = Counter(self.requests.values())
        anywhere = sorted(n for (_, place), n in self.counts.items() if place == ANYWHERE and n)
        assert anywhere == sorted(wanted.values())
        for (priority, _), count in self.counts.items():
            assert count <= self.counts[priority, ANYWHERE]

    @invariant()
    def nobody_apart_shares_a_host(self) -> None:
        assert all(many <= 1 for (profile, *_), many in self.there.items() if profile is PLACED[0])

    @invariant()
    def knows_what_is_where(self) -> None:
        for profile in PLACED:
            there = {host: many for (k, _, host), many in (+self.there).items() if k is profile}
            assert self.table.held(profile.group) == there

    @invariant()
    def counts_what_is_requested(self) -> None:
        assert self.table.outstanding == len(self.requests)


TestScheduler = Scheduler.TestCase

WORKER = YarnProfile(1, "worker", Resource(8192, 1), "gpu", Placement.APART)
PS = YarnProfile(2, "ps", Resource(512, 2), None, Placement.SPREAD)


def requesting(*profiles: YarnProfile) -> RequestTable:
    table = RequestTable((WORKER, PS))
    for number, profile in enumerate(profiles):
        table.add(RequestId(str(number)), profile)
    return table


def test_a_wait_is_told_once_it_is_one_and_when_the_picture_changes() -> None:
    messages, table = AllocationMessages(), requesting(WORKER, WORKER, PS)
    assert messages.waiting(table, 1, "", 0.0) == ""
    assert messages.waiting(table, 1, "", FIRST_MESSAGE_S - 0.1) == ""
    told = messages.waiting(table, 1, "The queue has little.", FIRST_MESSAGE_S)
    assert told == (
        "Waiting for 3 of 4 containers: 2 × worker (8192 MB, 1 vcores, label gpu, apart), "
        "1 × ps (512 MB, 2 vcores). The queue has little."
    )
    assert messages.waiting(table, 1, "The queue has little.", 100.0) == ""
    assert (
        messages.waiting(table, 1, "The queue has less.", FIRST_MESSAGE_S + NEXT_MESSAGE_S - 0.1)
        == ""
    )
    assert messages.waiting(
        table, 1, "The queue has less.", FIRST_MESSAGE_S + NEXT_MESSAGE_S
    ).endswith("less.")


def test_what_comes_in_time_is_not_told_of() -> None:
    messages, table = AllocationMessages(), requesting(WORKER, PS)
    assert messages.waiting(table, 0, "", 0.0) == ""
    table.allocated(1, "host")
    assert messages.waiting(table, 1, "", FIRST_MESSAGE_S) == ""
    table.allocated(2, "host")
    assert messages.waiting(table, 2, "", 9 * FIRST_MESSAGE_S) == ""


def test_a_crowd_is_told_when_all_are_there() -> None:
    messages, table = AllocationMessages(), requesting(PS, PS, PS, WORKER, WORKER)
    messages.requested(PS)
    messages.requested(WORKER)
    for host in ("a", "b"):
        table.allocated(2, host)
        assert messages.shared_nodes(table) == []
    table.allocated(2, "b")
    told = "ps: 3 tasks share 2 nodes, though they are to be spread"
    assert messages.shared_nodes(table) == [told]
    assert messages.shared_nodes(table) == []


def test_no_crowd_no_word() -> None:
    messages, table = AllocationMessages(), requesting(PS, PS)
    messages.requested(PS)
    for host in ("a", "b"):
        table.allocated(2, host)
    assert messages.shared_nodes(table) == []
