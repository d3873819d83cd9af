from __future__ import annotations

import threading

import pytest

from ytf.cli.output import say, say_output


def test_lines_of_several_threads_stay_whole(capfd: pytest.CaptureFixture[str]) -> None:
    start = threading.Barrier(4)

    def talk(number: int) -> None:
        start.wait()
        for _ in range(200):
            (say if number % 2 else say_output)(str(number) * 50)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = capfd.readouterr().err.splitlines()
    assert sorted(lines) == sorted(str(number) * 50 for number in range(4) for _ in range(200))
