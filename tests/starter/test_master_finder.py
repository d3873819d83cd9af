"""A starter that no master reaches, and that looks for one by itself."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.starter.conftest import is_alive
from tests.starter.fake_master import SECRET, FakeMaster, sign
from tests.starter.steps import FOREVER, Start, run_to
from ytf.starter import master_finder
from ytf.starter.helper_process import LINE_LIMIT
from ytf.starter.master_finder import MasterFinder
from ytf.starter.master_locator import MasterLocator
from ytf.testing.waiting import eventually
from ytf.wire.signing import Signer


def written(url: str, attempt: int, secret: bytes = SECRET) -> str:
    """What a master writes, with a signature of this test's own making."""
    signature = sign(secret, "master", url, str(attempt))
    return json.dumps({"url": url, "attempt": attempt, "signature": signature})


def printing(*texts: str) -> list[str]:
    """The arguments of a process that has found these texts."""
    return ["-c", f"print({json.dumps({'masters': texts, 'error': ''})!r})"]


def find(arguments: list[str], known: int = 0) -> str:
    """Where a locator that knows the master of attempt ``known`` finds one, or the old address."""
    finder = MasterFinder(arguments, {}, Signer(SECRET), 0.0, SimpleQueue())
    with closing(MasterLocator("http://old:1", None, known, finder)) as locator:
        locator.refresh()
        assert finder._process is not None

        def ended() -> bool:
            locator.refresh()
            return finder._process is None

        eventually(ended, 30)
        return locator.url


def test_a_master_that_no_call_announced_is_found(master: FakeMaster, start: Start) -> None:
    with closing(FakeMaster(SECRET)) as second:
        starter = start(
            FOREVER,
            heartbeat_timeout_s=0.6,
            finder=printing(written(second.url, 2)),
            master_attempt=1,
        )
        run_to(master, starter)
        program = starter.processes()[:2]
        master.close()
        second.wait_for(lambda: second.polls, "polls at the new master")
        assert all(is_alive(pid) for pid in program)
        second.order(stop=True)
        assert starter.wait() == 0


def test_a_starter_that_ends_leaves_no_process_that_looks(master: FakeMaster, start: Start) -> None:
    hangs = ["-c", "import time; time.sleep(1000)"]
    starter = start(FOREVER, heartbeat_timeout_s=0.6, finder=hangs)
    run_to(master, starter)
    program = set(starter.processes())
    master.close()
    eventually(lambda: set(starter.processes()) - program, describe="a process that looks")
    looking = set(starter.processes()) - program
    starter.process.terminate()
    assert starter.wait() == 143
    assert not any(is_alive(pid) for pid in looking)


def test_the_newest_of_the_signed_ones_counts() -> None:
    texts = [written("http://b:2", 2), written("http://d:4", 4), written("http://c:3", 3)]
    assert find(printing(*texts)) == "http://d:4"
    assert find(printing(*texts[:1]), known=3) == "http://old:1", "the one it knows is newer"


@pytest.mark.parametrize(
    "text",
    [
        written("http://evil:6", 9, secret=b"another"),
        written("http://a:1", 2).replace("http://a:1", "http://evil:6"),
        written("http://a:1", 2).replace('"attempt": 2', '"attempt": 99'),
        json.dumps({"url": "http://evil:6", "attempt": 9, "signature": None}),
        json.dumps({"url": "http://evil:6", "attempt": "9" * 5000}),
        written("no address", 9),
        "[" * 1024,
        '{"url": 1}',
        "",
    ],
)
def test_what_somebody_else_wrote_changes_nothing(text: str) -> None:
    assert find(printing(text)) == "http://old:1"
    assert find(printing(text, written("http://new:1", 2))) == "http://new:1"


def test_a_line_that_is_too_long_is_not_taken_however_it_arrives(
    capfd: pytest.CaptureFixture[str],
) -> None:
    long = "x" * LINE_LIMIT
    assert find(printing(long, written("http://new:1", 2))) == "http://old:1"
    assert "it wrote a line that is too long" in capfd.readouterr().err


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit('no HDFS')",
        "print('x' * 10**6)",
        "print('[' * 10**6)",
        "print('{}')",
        "print('[]')",
        "print('{\"masters\": 7}')",
        "",
    ],
)
def test_a_process_that_fails_changes_nothing(code: str) -> None:
    assert find(["-c", code]) == "http://old:1"


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_finder, "TIME_LIMIT_S", 0.2)
    assert find(["-c", "import time; time.sleep(1000)"]) == "http://old:1"


def test_an_interpreter_that_is_gone_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    finder = MasterFinder(["-c", ""], {}, Signer(SECRET), 0.0, SimpleQueue())
    assert finder.look(1.0) is None
    assert finder._process is None


def test_it_looks_only_after_a_silence_and_seldom(tmp_path: Path) -> None:
    count = tmp_path / "count"
    code = f"open({str(count)!r}, 'a').write('x')"
    with closing(MasterFinder(["-c", code], {}, Signer(SECRET), 50.0, SimpleQueue())) as finder:
        assert finder.look(10.0) is None
        assert finder._process is None
        finder.look(60.0)
        eventually(lambda: count.exists() and finder.look(60.0) is None and finder._process is None)
        finder.look(60.0)
        assert finder._process is None, "too early for another one"
    assert count.read_text() == "x"
