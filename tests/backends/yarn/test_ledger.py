"""Wishes in, absolute counts out."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ytf.backends.yarn.ledger import Kind, Ledger
from ytf.hadoop.yarn.asks import ANYWHERE, Ask
from ytf.hadoop.yarn.ids import NodeId
from ytf.hadoop.yarn.records import NodeReport, NodeState
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import Placement
from ytf.specs.names import RequestId

SMALL, LARGE = Resource(128, 1), Resource(4096, 2)
KINDS = (Kind("worker", SMALL), Kind("worker", LARGE), Kind("ps", SMALL))
PLACED = (
    Kind("apart", SMALL, None, Placement.APART),
    Kind("spread", SMALL, None, Placement.SPREAD),
    Kind("pack", LARGE, None, Placement.PACK),
)


def node(
    port: int,
    free_mb: int = 8192,
    state: NodeState = NodeState.RUNNING,
    labels: tuple[str, ...] = (),
) -> NodeReport:
    return NodeReport(
        node=NodeId("host", port),
        http_address="host:1",
        rack="/rack",
        used=Resource(0, 0),
        capability=Resource(free_mb, 64),
        containers=0,
        state=state,
        health="",
        labels=labels,
        decommissioning_timeout_s=None,
    )


def counts(asks: list[Ask]) -> dict[str, int]:
    return {ask.place: ask.count for ask in asks}


def test_one_wish_is_asked_for_once() -> None:
    ledger = Ledger()
    ledger.want(RequestId("a"), KINDS[0])
    ledger.want(RequestId("a"), KINDS[0])
    [ask] = ledger.changes()
    assert (ask.place, ask.count, ask.resource) == (ANYWHERE, 1, SMALL)
    assert ledger.changes() == []


def test_hosts_that_have_room_are_named_with_their_rack() -> None:
    nodes = (node(1), node(2, free_mb=64), node(3, state=NodeState.LOST))
    ledger = Ledger()
    for name in "ab":
        ledger.want(RequestId(name), KINDS[0])
    ledger.prefer(nodes, str)
    assert counts(ledger.changes()) == {"host:1": 2, "/rack": 2, ANYWHERE: 2}
    ledger.waited(1)
    assert counts(ledger.changes()) == {"host:1": 0, "/rack": 0}


def test_a_label_goes_with_anywhere_and_only_its_nodes_are_named() -> None:
    ledger = Ledger()
    ledger.want(RequestId("a"), Kind("worker", SMALL, "gpu"))
    ledger.want(RequestId("b"), Kind("ps", SMALL, ""))
    ledger.prefer([node(1), node(2, labels=("gpu",))], str)
    asks = ledger.changes()
    assert {(ask.priority, ask.place, ask.node_label) for ask in asks} == {
        (1, "host:2", None), (1, "/rack", None), (1, ANYWHERE, "gpu"),
        (2, "host:1", None), (2, "/rack", None), (2, ANYWHERE, ""),
    }  # fmt: skip


def strictness(asks: list[Ask]) -> dict[str, bool]:
    return {ask.place: ask.relax_locality for ask in asks}


def test_tasks_apart_have_one_place_on_each_host_until_it_is_free_again() -> None:
    nodes = (node(1), node(2, free_mb=128), node(3))
    ledger = Ledger(PLACED)
    for name in "abc":
        ledger.want(RequestId(name), PLACED[0])
    ledger.prefer(nodes, str)
    asks = ledger.changes()
    assert counts(asks) == {"host:1": 1, "host:2": 1, "host:3": 1, "/rack": 3, ANYWHERE: 3}
    assert strictness(asks)["/rack"] is strictness(asks)[ANYWHERE] is False
    assert ledger.answered(1, "host:2") == "a"
    ledger.waited(1)
    ledger.prefer(nodes, str)
    assert ledger.changes() == []
    assert ledger.held("apart") == {"host:2": 1}
    ledger.returned(1, "host:2")
    ledger.prefer(nodes, str)
    assert counts(ledger.changes()) == {"host:2": 1}


def test_an_inherited_container_keeps_its_host_to_itself() -> None:
    ledger = Ledger(PLACED)
    ledger.inherited(1, "host:1")
    ledger.want(RequestId("b"), PLACED[0])
    ledger.prefer((node(1), node(2)), str)
    assert counts(ledger.changes()) == {"host:2": 1, "/rack": 1, ANYWHERE: 1}


def test_a_plan_is_kept_to_until_it_is_given_up() -> None:
    ledger = Ledger(PLACED)
    for name in "abc":
        ledger.want(RequestId(name), PLACED[1])
    ledger.prefer((node(1), node(2)), str)
    asks = ledger.changes()
    assert counts(asks) == {"host:1": 2, "host:2": 1, "/rack": 3, ANYWHERE: 3}
    assert not strictness(asks)[ANYWHERE]
    ledger.waited(1)
    asks = ledger.changes()
    assert counts(asks) == {"host:1": 0, "host:2": 0, "/rack": 0, ANYWHERE: 3}
    assert strictness(asks)[ANYWHERE]


def test_a_plan_that_failed_is_followed_by_none_that_is_insisted_on() -> None:
    ledger = Ledger(PLACED)
    ledger.want(RequestId("a"), PLACED[1])
    ledger.prefer((node(1),), str)
    ledger.changes()
    for _ in range(3):
        ledger.waited(3)
    assert strictness(ledger.changes())[ANYWHERE]
    # A node that comes is named, and no more: it may be as full as the first.
    ledger.prefer((node(1), node(2, free_mb=16384)), str)
    asks = ledger.changes()
    assert counts(asks) == {"host:2": 1, "/rack": 1}
    assert all(strictness(asks).values())
    ledger.waited(3)
    assert counts(ledger.changes()) == {"host:2": 0, "/rack": 0}


def test_each_kind_has_a_patience_of_its_own() -> None:
    ledger = Ledger(PLACED)
    ledger.want(RequestId("a"), PLACED[1])
    ledger.prefer((node(1),), str)
    ledger.waited(2)
    for name in "bc":
        ledger.want(RequestId(name), PLACED[2])
    ledger.prefer((node(1),), str)
    assert not any(ask.relax_locality for ask in ledger.changes() if ask.place == ANYWHERE)
    # That one of them got something is no comfort to the other.
    assert ledger.answered(3, "host:1") == "b"
    ledger.waited(2)
    assert {ask.priority for ask in ledger.changes() if ask.place == ANYWHERE} == {2}
    assert ledger.answered(3, "host:1") == "c"


def test_what_is_planned_for_one_kind_is_not_there_for_the_next() -> None:
    first, second = Kind("a", LARGE, None, Placement.PACK), Kind("b", LARGE, None, Placement.PACK)
    ledger = Ledger()
    for name in "abcd":
        ledger.want(RequestId(name), first if name < "c" else second)
    ledger.prefer((node(1), node(2)), str)
    found = {ask.priority: ask.place for ask in ledger.changes() if ask.place.startswith("host")}
    assert sorted(found.values()) == ["host:1", "host:2"]


def test_hosts_to_avoid_are_not_named() -> None:
    ledger = Ledger()
    ledger.want(RequestId("a"), PLACED[0])
    ledger.prefer((node(1), node(2)), str, {"host:1"})
    assert "host:1" not in counts(ledger.changes())


def test_a_container_answers_the_oldest_wish_of_its_kind() -> None:
    ledger = Ledger()
    for name in "abc":
        ledger.want(RequestId(name), KINDS[0])
    ledger.want(RequestId("ps"), KINDS[2])
    first, other = ledger.changes()
    assert first.priority != other.priority
    assert ledger.answered(first.priority, "host:1") == "a"
    ledger.forget(RequestId("b"))
    assert ledger.answered(first.priority, "host:1") == "c"
    assert ledger.answered(first.priority, "host:1") is None
    assert ledger.answered(99, "host:1") is None
    assert ledger.outstanding == 1


def test_what_the_scheduler_counts_off_is_not_said_again() -> None:
    nodes = (node(1), node(2))
    ledger = Ledger()
    for name in "abc":
        ledger.want(RequestId(name), KINDS[0])
    ledger.prefer(nodes, str)
    priority = ledger.changes()[0].priority
    ledger.answered(priority, "host:1")
    # Of the hosts only the one that gave it was counted off; the other must hear of it.
    assert counts(ledger.changes()) == {"host:2": 2}


def test_everything_is_said_again_to_who_has_forgotten() -> None:
    ledger = Ledger()
    ledger.want(RequestId("a"), KINDS[0])
    ledger.want(RequestId("b"), KINDS[1])
    said = ledger.changes()
    assert ledger.everything() == said


class Scheduler(RuleBasedStateMachine):
    """A scheduler that keeps absolute counts, as the CapacityScheduler does."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.wishes: dict[RequestId, Kind] = {}
        self.made = 0
        self.counts: dict[tuple[int, str], int] = {}
        self.relaxed: dict[tuple[int, str], bool] = {}
        self.there: Counter[tuple[Kind, int, str]] = Counter()
        self.sizes: dict[int, Resource] = {}
        self.nodes = (node(1), node(2, free_mb=1024))

    @rule(kind=st.sampled_from((*KINDS, *PLACED)), many=st.integers(1, 4))
    def want(self, kind: Kind, many: int) -> None:
        for _ in range(many):
            self.made += 1
            request = RequestId(str(self.made))
            self.ledger.want(request, kind)
            self.wishes[request] = kind

    @precondition(lambda self: self.wishes)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.wishes)))
        self.ledger.forget(request)
        del self.wishes[request]

    @rule()
    def prefer(self) -> None:
        self.ledger.prefer(self.nodes, str)

    @rule(patience=st.integers(1, 3))
    def waited(self, patience: int) -> None:
        self.ledger.waited(patience)

    @rule(forgets=st.booleans())
    def beat(self, forgets: bool) -> None:
        if forgets:
            self.counts = {}
        for ask in self.ledger.everything() if forgets else self.ledger.changes():
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
        request = self.ledger.answered(priority, host)
        if request is not None:
            kind = self.wishes.pop(request)
            assert kind.resource == self.sizes[priority]
            self.there[kind, priority, host] += 1

    @precondition(lambda self: +self.there)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        kind, priority, host = data.draw(st.sampled_from(sorted(+self.there, key=repr)))
        self.there[kind, priority, host] -= 1
        self.ledger.returned(priority, host)

    def check_counts(self) -> None:
        wanted = Counter(self.wishes.values())
        anywhere = sorted(n for (_, place), n in self.counts.items() if place == ANYWHERE and n)
        assert anywhere == sorted(wanted.values())
        for (priority, _), count in self.counts.items():
            assert count <= self.counts[priority, ANYWHERE]

    @invariant()
    def nobody_apart_shares_a_host(self) -> None:
        assert all(many <= 1 for (kind, *_), many in self.there.items() if kind is PLACED[0])

    @invariant()
    def knows_what_is_where(self) -> None:
        for kind in PLACED:
            there = {host: many for (k, _, host), many in (+self.there).items() if k is kind}
            assert self.ledger.held(kind.group) == there

    @invariant()
    def owes_what_is_wished(self) -> None:
        assert self.ledger.outstanding == len(self.wishes)


TestScheduler = Scheduler.TestCase
