"""Helper processes of a starter: their messages, their end, and what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from tests.starter.conftest import is_alive
from ytf.backends.launch import helper_arguments
from ytf.starter.desired_state import HelperChanged
from ytf.starter.helper_process import LINE_LIMIT, HelperProcess, Helpers
from ytf.testing.waiting import eventually

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage

PRELUDE = "from ytf.storage.helper_protocol import run\ndef work(link):\n"

StartCode = Callable[..., HelperProcess]


@pytest.fixture
def inbox() -> SimpleQueue[InboxMessage]:
    return SimpleQueue()


@pytest.fixture
def start_code(tmp_path: Path, inbox: SimpleQueue[InboxMessage]) -> Iterator[StartCode]:
    """Start helpers that run the given body of ``work(link)``."""
    arguments = helper_arguments()
    arguments[-1] = arguments[-1].replace(
        "sys.path +=", f"sys.path += [{str(tmp_path)!r}];sys.path +="
    )
    helpers = Helpers(arguments, {"PATH": os.environ["PATH"], "MARK": "x"}, inbox)

    def begin(body: str, request: object = None, **more: object) -> HelperProcess:
        code = PRELUDE + textwrap.indent(textwrap.dedent(body), "    ") + "\nrun(work)\n"
        (tmp_path / "the_helper.py").write_text(code)
        return helpers.start("the_helper", {"request": request}, **more)  # type: ignore[arg-type]

    yield begin
    helpers.end_all()


def test_it_gets_a_request_of_any_length_and_tells_what_it_does(
    start_code: StartCode, inbox: SimpleQueue[InboxMessage]
) -> None:
    told: list[dict[str, object]] = []
    body = """
        link.tell({"length": len(link.request["request"])})
        link.tell({"name": "\\udcff ä"})
    """
    helper = start_code(body, "x" * 10**6, on_message=told.append)
    eventually(lambda: helper.exit)
    assert told == [{"length": 10**6}, {"name": "\udcff ä"}]
    assert helper.last == told[-1]
    assert helper.exit is not None
    assert (helper.exit.exit_code, helper.exit.signal, helper.exit.stderr) == (0, None, "")
    assert isinstance(inbox.get_nowait(), HelperChanged)


def test_it_can_run_beside_a_program_and_finish_when_told(start_code: StartCode) -> None:
    body = """
        link.tell({"state": "running"})
        for message in link.messages():
            link.tell({"heard": message})
            if "finish" in message:
                break
    """
    helper = start_code(body)
    eventually(lambda: helper.last.get("state") == "running")
    assert helper.send({"note": 1})
    assert helper.send({"finish": True})
    eventually(lambda: helper.exit)
    assert helper.last == {"heard": {"finish": True}}
    assert not helper.send({"late": True})
    assert not helper.send({"long": "x" * 5000})


def test_an_error_for_users_is_a_message_and_a_bug_is_not(start_code: StartCode) -> None:
    helper = start_code("raise FileNotFoundError(2, 'no such file', 'x')")
    eventually(lambda: helper.exit)
    assert helper.exit is not None
    assert helper.exit.exit_code == 1
    assert "no such file" in helper.last["error"]
    helper = start_code("print('to stderr'); raise KeyError('a bug')")
    eventually(lambda: helper.exit)
    assert helper.exit is not None
    assert "exit code 70" in str(helper.exit)
    assert "KeyError: 'a bug'" in helper.exit.stderr
    assert helper.last == {}


def test_one_that_is_killed_says_so(start_code: StartCode) -> None:
    helper = start_code("link.tell({'pid': 1}); import time; time.sleep(1000)")
    eventually(lambda: helper.last)
    os.kill(helper.pid, signal.SIGKILL)
    eventually(lambda: helper.exit)
    assert str(helper.exit) == "it was killed by signal 9"
    helper.end()


def test_what_it_writes_is_bounded(start_code: StartCode) -> None:
    helper = start_code(
        f"import os; os.write(link._stdout, b'x' * {LINE_LIMIT * 3})\nlink.tell({{}})"
    )
    eventually(lambda: helper.exit)
    assert helper.exit is not None
    assert "too long" in helper.exit.stderr
    body = "import os\nfor _ in range(100): os.write(2, b'y' * 10000)\nos.write(2, b'\\nlast')"
    helper = start_code(body)
    eventually(lambda: helper.exit)
    assert helper.exit is not None
    assert helper.exit.stderr.endswith("last")
    assert len(helper.exit.stderr) < 10_000


def test_what_is_no_message_changes_nothing(start_code: StartCode) -> None:
    helper = start_code(
        "import os; os.write(link._stdout, b'[1]\\nnonsense\\n\\xff\\n'); link.tell({'a': 1})"
    )
    eventually(lambda: helper.exit)
    assert helper.last == {"a": 1}


def test_ending_all_leaves_no_process(tmp_path: Path, start_code: StartCode) -> None:
    helper = start_code("link.tell({'a': 1}); import time; time.sleep(1000)")
    eventually(lambda: helper.last)
    helper.end()
    assert not is_alive(helper.pid)
    assert helper.exit is not None


def test_it_does_not_outlive_its_starter(tmp_path: Path) -> None:
    (tmp_path / "the_helper.py").write_text(
        PRELUDE + "    link.tell({}); import time; time.sleep(1000)\nrun(work)\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import the_helper"
    code = f"""
import sys, time
from queue import SimpleQueue
from ytf.starter.helper_process import Helpers
helpers = Helpers(["-c", {code!r}], {{}}, SimpleQueue())
print(helpers.start("x", {{}}, lambda message: None).pid, flush=True)
time.sleep(1000)
"""
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    with starter.stdout:
        pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    eventually(lambda: not is_alive(pid))


def test_an_interpreter_that_is_gone_is_an_os_error(
    monkeypatch: pytest.MonkeyPatch, inbox: SimpleQueue[InboxMessage]
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(OSError, match="No such file"):
        Helpers([], {}, inbox).start("x", {})
