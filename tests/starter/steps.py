"""What tests of the whole starter do first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.starter.conftest import (
    RunningStarter,
)
from tests.starter.fake_master import FakeMaster
from ytf.testing.waiting import eventually

Start = Callable[..., RunningStarter]

FOREVER = "echo ready; while :; do sleep 0.05; done"


def says(starter: RunningStarter, text: str) -> bool:
    return text in starter.output()


def run_to(master: FakeMaster, starter: RunningStarter, text: str = "ready") -> None:
    """Bring the program of attempt 0 to the point where it has written ``text``."""
    master.meet()
    master.expect("started", 0)
    eventually(partial(says, starter, text), describe=f"{text!r} from the program")
