"""A journal returns all that it has acknowledged, whatever masters and disks do.

Hypothesis makes the histories: masters append, take snapshots, meet failing disks,
die in any call to the disk with a blob cut at any byte, are replaced while they
still live, and write on. Each new master must find every entry its predecessor
acknowledged, and nothing that its predecessor did not know of, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.memory import DISK_FULL, DiedError, MemoryBlobs, Process
from ytf.journal.format import Entry
from ytf.journal.writer import FencedError, Journal
from ytf.machine.events import MasterStarted


@dataclass(frozen=True)
class Append:
    """Several callers at once, each with some entries, to one of the last masters."""

    back: int
    callers: list[int]
    snapshot: bool


@dataclass(frozen=True)
class Fail:
    """The next writes of a master fail, before or after they are done."""

    back: int
    times: int
    late: bool


@dataclass(frozen=True)
class Start:
    """A new master takes over; it may itself die soon."""

    skip: int
    calls: int | None
    torn: float


@dataclass(frozen=True)
class Overtake:
    """A new master takes over within a master's next write, before or after it is done."""

    back: int
    late: bool
    start: Start


@dataclass(frozen=True)
class Doom:
    """A master dies after some more calls to the disk, while writing so much of a blob."""

    back: int
    calls: int
    torn: float


Step = Append | Fail | Overtake | Doom | Start

back = st.integers(0, 2)
torn = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, 1.0))
starts = st.builds(Start, st.integers(1, 3), st.none() | st.integers(0, 12), torn)
steps = st.one_of(
    st.builds(Append, back, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.booleans()),
    st.builds(Append, st.just(0), st.lists(st.integers(1, 3), min_size=1), st.booleans()),
    st.builds(Fail, back, st.integers(1, 3), st.booleans()),
    st.builds(Doom, back, st.integers(0, 12), torn),
    st.builds(Overtake, back, st.booleans(), starts),
    starts,
)


@dataclass(eq=False)
class Master:
    process: Process
    journal: Journal
    history: list[int]
    """What it replayed and was then given, in order."""
    acknowledged: set[int]


@dataclass
class History:
    """Plays the steps, and knows what must be found."""

    disk: MemoryBlobs = field(default_factory=MemoryBlobs)
    masters: list[Master] = field(default_factory=list)
    attempt: int = 0
    entries: int = 0

    async def play(self, told: list[Step]) -> None:
        await self.start(Start(1, None, 0.0))
        for step in told:
            if isinstance(step, Start):
                await self.start(step)
                continue
            master = self.masters[-1 - step.back % len(self.masters)]
            if isinstance(step, Append):
                await self.append(master, step)
            elif isinstance(step, Fail):
                self.fail(master.process, step)
            elif isinstance(step, Overtake):
                self.overtake(master.process, step)
            else:
                master.process.calls_left, master.process.torn = step.calls, step.torn
        await self.start(Start(1, None, 0.0))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def start(self, step: Start) -> None:
        self.attempt += step.skip
        process = Process(self.disk)
        process.calls_left, process.torn = step.calls, step.torn
        try:
            journal = await Journal.open(process, self.attempt, retry_s=0.0001)
            replay = await journal.replay()
        except DiedError:
            return
        begin = msgspec.json.decode(replay.snapshot or b"[]", type=list[int])
        found = begin + [int(entry.at) for entry in replay.entries]
        acknowledged: set[int] = set()
        if self.masters:
            before = self.masters[-1]
            acknowledged = before.acknowledged
            assert found == before.history[: len(found)]
            assert acknowledged <= set(found)
        self.masters.append(Master(process, journal, found, acknowledged | set(found)))

    async def append(self, master: Master, step: Append) -> None:
        calls = []
        for count in step.callers:
            numbers = [self.entries + i for i in range(count)]
            self.entries += count
            calls.append(self.append_one(master, numbers))
        # gather() begins them in this order, so the snapshot covers the first two.
        snapshot = self.snapshot(master) if step.snapshot else asyncio.sleep(0)
        await asyncio.gather(*calls[:2], snapshot, *calls[2:])

    async def append_one(self, master: Master, numbers: list[int]) -> None:
        master.history += numbers
        events = [Entry(at=float(n), event=MasterStarted(attempt=n)) for n in numbers]
        try:
            await master.journal.append(events)
        except FencedError:
            assert not self.is_in_charge(master)
        except DiedError:
            assert master.process.dead
        else:
            master.acknowledged.update(numbers)
            for successor in self.masters[self.masters.index(master) + 1 :][:1]:
                assert set(numbers) <= set(successor.history)

    async def snapshot(self, master: Master) -> None:
        state = list(master.history)
        try:
            await master.journal.snapshot(msgspec.json.encode(state))
        except (FencedError, DiedError):
            assert master.process.dead or not self.is_in_charge(master)

    def is_in_charge(self, master: Master) -> bool:
        return master.journal.attempt == max(int(name) for name in self.disk.list())

    def fail(self, process: Process, step: Fail) -> None:
        left = iter(range(step.times))

        def fail(name: str, data: bytes) -> None:
            if name.endswith(".segment") and next(left, None) is not None:
                raise DISK_FULL

        self.hook(process, step.late, fail)

    def overtake(self, process: Process, step: Overtake) -> None:
        once = iter([step.start])

        def overtake(name: str, data: bytes) -> None:
            # The writer's thread has no event loop, so the new master gets its own.
            for start in once:
                asyncio.run(self.start(start))

        self.hook(process, step.late, overtake)

    def hook(self, process: Process, late: bool, hook: Callable[[str, bytes], None]) -> None:
        if late:
            process.after = hook
        else:
            process.before = hook


@settings(max_examples=150, deadline=None)
@given(told=st.lists(steps, max_size=25))
def test_every_history_keeps_what_was_acknowledged(
    told: list[Step],
) -> None:
    asyncio.run(History().play(told))
