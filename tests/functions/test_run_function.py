"""The program of the tasks, run as a starter runs it, and what is read of what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ytf.functions.code_modules import TaskEnvironment
from ytf.functions.payload import COMMAND, FOLDER, RESULTS, write_payload
from ytf.functions.pickling import Call
from ytf.functions.results import TaskResults
from ytf.storage.local_files import LocalFiles


class Task:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / FOLDER).mkdir(parents=True)

    def ship(self, function: Any, *args: object) -> None:
        write_payload(
            Call(function, args), self.folder / FOLDER, [TaskEnvironment(sys.prefix)], print
        )

    def run(self, code: int = 0, rank: int = 0) -> str:
        words = COMMAND.split()[1:]
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=self.folder,
            env={**os.environ, "YTF_LOCAL_RANK": str(rank)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    @property
    def results(self) -> TaskResults:
        return TaskResults(LocalFiles(), str(self.folder / RESULTS))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path / "wörk dir")


def test_the_value_of_each_process_is_kept(task: Task) -> None:
    task.ship(lambda base: (base, os.environ["YTF_LOCAL_RANK"]), {"k": 1})
    task.run(rank=0)
    task.run(rank=1)
    assert task.results.processes == [0, 1]
    assert [task.results.value(rank) for rank in (0, 1)] == [({"k": 1}, "0"), ({"k": 1}, "1")]
    assert task.results.failure() is None


def test_files_of_the_working_directory_can_be_imported(task: Task) -> None:
    def use() -> object:
        import ytf_shipped_module  # type: ignore[import-not-found]

        return ytf_shipped_module.answer

    (task.folder / "ytf_shipped_module.py").write_text("answer = 42\n")
    task.ship(use)
    task.run()
    assert task.results.value(0) == 42


def test_what_a_function_raises_is_kept_as_text_and_as_an_exception(task: Task) -> None:
    class WrongError(Exception):
        pass

    def inner() -> None:
        raise WrongError("no\x1b[31m", 7)

    task.ship(inner)
    stderr = task.run(code=1)
    found = task.results.failure()
    assert found is not None
    assert (found.type_name, found.message) == ("WrongError", str(("no\x1b[31m", 7)))
    assert found.traceback == stderr
    assert "in inner" in stderr
    assert "/run_function.py" not in stderr
    # The very class of this process, though it travelled as code.
    assert type(found.exception) is WrongError
    assert not task.results.has_value(0)


def test_an_exception_that_cannot_travel_has_its_text(task: Task) -> None:
    def fail() -> None:
        raise ValueError(threading.Lock())

    task.ship(fail)
    task.run(code=1)
    found = task.results.failure()
    assert found is not None
    assert found.exception is None
    assert "ValueError: <unlocked _thread.lock" in found.traceback


def test_a_value_that_cannot_be_pickled_is_an_error(task: Task) -> None:
    task.ship(lambda: threading.Lock())
    assert "what the function returned, a lock, cannot be pickled" in task.run(code=1)
    found = task.results.failure()
    assert found is not None
    assert found.type_name == "FunctionError"
    assert os.listdir(task.folder / RESULTS).count("0.value.new") == 0


def test_exits_are_as_in_any_program(task: Task) -> None:
    task.ship(sys.exit, 3)
    task.run(code=3)
    found = task.results.failure()
    assert found is not None
    assert (found.type_name, found.message) == ("SystemExit", "3")


def test_an_exit_with_0_is_a_return(task: Task) -> None:
    task.ship(sys.exit, 0)
    task.run()
    assert task.results.value(0) is None


def test_a_later_attempt_replaces_what_an_earlier_one_left(task: Task) -> None:
    task.ship(lambda: (_ for _ in ()).throw(KeyError("first")) if not os.path.exists("x") else 2)
    task.run(code=1)
    (task.folder / "x").touch()
    task.run()
    assert task.results.failure() is None
    assert task.results.value(0) == 2


def test_another_version_of_python_is_told_before_anything_is_unpickled(task: Task) -> None:
    task.ship(print)
    about = task.folder / FOLDER / "function.json"
    about.write_text(json.dumps({"name": "print", "python": "3.4"}))
    assert "the function is of Python 3.4, and" in task.run(code=1)


def test_a_module_that_is_missing_there_is_named(task: Task, tmp_path: Path) -> None:
    task.ship(print)
    pickled = task.folder / FOLDER / "function.pickle"
    pickled.write_bytes(b"cabsent_module\nthing\n.")
    assert "print needs a module that is not in the task's environment: No module" in task.run(1)


def test_a_task_that_never_began_has_nothing(task: Task) -> None:
    assert task.results.processes == []
    assert task.results.failure() is None
