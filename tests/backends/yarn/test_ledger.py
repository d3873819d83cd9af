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
from ytf.specs.names import RequestId

SMALL, LARGE = Resource(128, 1), Resource(4096, 2)
KINDS = (Kind("worker", SMALL), Kind("worker", LARGE), Kind("ps", SMALL))


def node(port: int, free_mb: int = 8192, state: NodeState = NodeState.RUNNING) -> NodeReport:
    return NodeReport(
        node=NodeId("host", port),
        http_address="host:1",
        rack="/rack",
        used=Resource(0, 0),
        capability=Resource(free_mb, 64),
        containers=0,
        state=state,
        health="",
        labels=(),
        decommissioning_timeout_s=None,
    )


def names(*nodes: NodeReport) -> dict[NodeId, str]:
    return {each.node: str(each.node) for each in nodes}


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
    ledger.prefer(nodes, names(*nodes))
    assert counts(ledger.changes()) == {"host:1": 2, "/rack": 2, ANYWHERE: 2}
    ledger.relax()
    assert counts(ledger.changes()) == {"host:1": 0, "/rack": 0}


def test_a_label_is_asked_for_anywhere_only() -> None:
    ledger = Ledger()
    ledger.want(RequestId("a"), Kind("worker", SMALL, "gpu"))
    ledger.prefer([node(1)], names(node(1)))
    [ask] = ledger.changes()
    assert (ask.place, ask.node_label) == (ANYWHERE, "gpu")


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
    ledger.prefer(nodes, names(*nodes))
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
        self.sizes: dict[int, Resource] = {}
        self.nodes = (node(1), node(2, free_mb=1024))

    @rule(kind=st.sampled_from(KINDS), many=st.integers(1, 4))
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
        self.ledger.prefer(self.nodes, names(*self.nodes))

    @rule()
    def relax(self) -> None:
        self.ledger.relax()

    @rule(forgets=st.booleans())
    def beat(self, forgets: bool) -> None:
        if forgets:
            self.counts = {}
        for ask in self.ledger.everything() if forgets else self.ledger.changes():
            assert self.sizes.setdefault(ask.priority, ask.resource) == ask.resource
            self.counts[ask.priority, ask.place] = ask.count
        self.check_counts()

    @rule(data=st.data())
    def allocate(self, data: st.DataObject) -> None:
        due = sorted(p for (p, place), n in self.counts.items() if place == ANYWHERE and n)
        if not due:
            return
        priority = data.draw(st.sampled_from(due))
        host = data.draw(st.sampled_from(["host:1", "host:2"]))
        for place in (host, "/rack", ANYWHERE):
            if self.counts.get((priority, place)):
                self.counts[priority, place] -= 1
        request = self.ledger.answered(priority, host)
        if request is not None:
            assert self.wishes.pop(request).resource == self.sizes[priority]

    def check_counts(self) -> None:
        wanted = Counter(self.wishes.values())
        anywhere = sorted(n for (_, place), n in self.counts.items() if place == ANYWHERE and n)
        assert anywhere == sorted(wanted.values())
        for (priority, _), count in self.counts.items():
            assert count <= self.counts[priority, ANYWHERE]

    @invariant()
    def owes_what_is_wished(self) -> None:
        assert self.ledger.outstanding == len(self.wishes)


TestScheduler = Scheduler.TestCase
