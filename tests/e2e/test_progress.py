"""What ``ytf.run`` shows on a terminal while it blocks."""

from __future__ import annotations

import re

from tests.e2e.harness import BIN, Ytf
from tests.e2e.terminal import Terminal

PROGRAM = """
import os, pathlib, sys, threading, time, ytf
gate = os.environ["GATE"]
def task():
    while not pathlib.Path(gate, "go").exists():
        time.sleep(0.02)
    raise ValueError("no data")
threads = threading.enumerate()
def user():
    while not pathlib.Path(gate, "runs").exists():
        time.sleep(0.02)
    print("printed by the user")
threading.Thread(target=user).start()
try:
    ytf.run(task, name="train")
finally:
    left = [each.name for each in threading.enumerate() if each not in threads]
    print("threads left:", left, file=sys.stderr)
"""


def test_a_terminal_shows_the_job_in_one_place_and_then_why_it_failed(ytf: Ytf) -> None:
    terminal = Terminal([str(BIN / "python"), "-c", PROGRAM], ytf.env, ytf.work, 24, 100)
    try:
        terminal.expect("is accepted")
        terminal.expect("(train): RUNNING")
        ytf.tell("runs")
        # The table makes room for it, and is drawn anew below it.
        assert "\x1b[1A" in terminal.expect("printed by the user")
        terminal.expect("(train): RUNNING")
        ytf.open_gate()
        terminal.expect("(train): FAILED")
        after = terminal.expect("worker:0 exited with code 1")
        assert after.rstrip().endswith("\x1b[?25h")  # the cursor is there again
        terminal.expect("threads left: []")
        assert re.search(r"RunFailed: worker:0 on \S+ raised ValueError: no data", _rest(terminal))
    finally:
        ytf.open_gate()
        terminal.close()


def _rest(terminal: Terminal) -> str:
    assert terminal.wait() == 1
    return terminal.shown
