"""When something is said of a wait, and what."""

from __future__ import annotations

from ytf.backends.yarn.ledger import Kind, Ledger
from ytf.backends.yarn.master.telling import AGAIN_S, FIRST_S, Teller
from ytf.hadoop.yarn.resources import Resource
from ytf.specs.job import Placement
from ytf.specs.names import RequestId

WORKER = Kind("worker", Resource(8192, 1), "gpu", Placement.APART)
PS = Kind("ps", Resource(512, 2), None, Placement.SPREAD)


def wishing(*kinds: Kind) -> Ledger:
    ledger = Ledger((WORKER, PS))
    for number, kind in enumerate(kinds):
        ledger.want(RequestId(str(number)), kind)
    return ledger


def test_a_wait_is_told_once_it_is_one_and_when_the_picture_changes() -> None:
    teller, ledger = Teller(), wishing(WORKER, WORKER, PS)
    assert teller.waiting(ledger, 1, "", 0.0) == ""
    assert teller.waiting(ledger, 1, "", FIRST_S - 0.1) == ""
    told = teller.waiting(ledger, 1, "The queue has little.", FIRST_S)
    assert told == (
        "Waiting for 3 of 4 containers: 2 × worker (8192 MB, 1 vcores, label gpu, apart), "
        "1 × ps (512 MB, 2 vcores). The queue has little."
    )
    assert teller.waiting(ledger, 1, "The queue has little.", 100.0) == ""
    assert teller.waiting(ledger, 1, "The queue has less.", FIRST_S + AGAIN_S - 0.1) == ""
    assert teller.waiting(ledger, 1, "The queue has less.", FIRST_S + AGAIN_S).endswith("less.")


def test_what_comes_in_time_is_not_told_of() -> None:
    teller, ledger = Teller(), wishing(WORKER, PS)
    assert teller.waiting(ledger, 0, "", 0.0) == ""
    ledger.answered(1, "host")
    assert teller.waiting(ledger, 1, "", FIRST_S) == ""
    ledger.answered(2, "host")
    assert teller.waiting(ledger, 2, "", 9 * FIRST_S) == ""


def test_a_crowd_is_told_when_all_are_there() -> None:
    teller, ledger = Teller(), wishing(PS, PS, PS, WORKER, WORKER)
    teller.wished(PS)
    teller.wished(WORKER)
    for host in ("a", "b"):
        ledger.answered(2, host)
        assert teller.crowded(ledger) == []
    ledger.answered(2, "b")
    told = "ps: 3 tasks share 2 nodes, though they are to be spread"
    assert teller.crowded(ledger) == [told]
    assert teller.crowded(ledger) == []


def test_no_crowd_no_word() -> None:
    teller, ledger = Teller(), wishing(PS, PS)
    teller.wished(PS)
    for host in ("a", "b"):
        ledger.answered(2, host)
    assert teller.crowded(ledger) == []
