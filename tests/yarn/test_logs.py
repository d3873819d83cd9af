"""``ytf logs`` of a running job comes from its starters, and says which it cannot get."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.yarn.driver import HERE, HOLD, Started, Yarn

MORE = 'until [ -e "$GATE/more" ]; do sleep 0.05; done; '


@contextmanager
def suspended(*pids: int | None) -> Iterator[None]:
    """Let processes hang, as machines do: connections open, and nobody answers."""
    stopped: list[int] = []
    try:
        for pid in pids:
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def read_until(started: Started, *wanted: str) -> list[str]:
    """The lines up to the last of those that begin so, in whatever order."""
    missing = set(wanted)
    found = []
    for line in started.output:
        found.append(line.rstrip("\n"))
        missing = {each for each in missing if not line.startswith(each)}
        if not missing:
            return found
    raise AssertionError(f"it ended without {missing}: {found}")


def test_live_lines_need_no_node_and_what_is_missing_is_named(yarn: Yarn, gate: str) -> None:
    program = f"{gate}echo begun; {HERE}{MORE}echo more; {HOLD}echo end"
    job = yarn.submit("worker:2", program)
    running = yarn.wait_running(["worker:0", "worker:1"])
    nodes = [yarn.cluster.pid(name) for name in ("nm1", "nm2")]
    # The program's parent is its reaper, and the reaper's the starter.
    starter = parent(parent(running["worker:1"]))
    with yarn.started("ytf", "logs", "-f", job) as logs:
        found = read_until(logs, "worker:0 | begun", "worker:1 | begun")
        with suspended(*nodes):
            (yarn.work / "gate" / "more").touch()
            found += read_until(logs, "worker:0 | more", "worker:1 | more")
            with suspended(starter):
                found += read_until(logs, "ytf: the log of worker:1 on ")
        yarn.open_gate()
        found += logs.end(0).splitlines()
    said = [line for line in found if line.startswith("ytf: ")]
    # Perhaps a second time: should its node be found well again before its starter is.
    missing, *then = said
    assert "the starter at " in missing
    assert "the NodeManager at " in missing
    assert all("worker:1" in line and "is read from its NodeManager" in line for line in then)
    expected = [f"worker:{i} | {word}" for i in (0, 1) for word in ("begun", "more", "end")]
    assert sorted(set(found) - set(said)) == sorted(expected)
    assert len(found) == len(expected) + len(said), found
    assert sorted(yarn.run("ytf", "logs", job).stdout.splitlines()) == sorted(expected)
