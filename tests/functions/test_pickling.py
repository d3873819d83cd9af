from __future__ import annotations

import functools
import io
import pickle
import threading
from typing import Any

import pytest

from tests.functions import test_pickling as this_module
from ytf.errors import SpecError
from ytf.functions.experiments import get_safe_experiment_fn
from ytf.functions.pickling import BIG, Call, describe_size, pickle_call


def _pickled(function: Any, *args: object, **kwargs: object) -> tuple[Any, set[str]]:
    file = io.BytesIO()
    packages = pickle_call(Call(function, args, kwargs), file)
    return pickle.loads(file.getvalue()), packages


def _module_function() -> str:
    return "mine"


def test_a_function_of_a_module_travels_by_its_name() -> None:
    (function, args, kwargs), packages = _pickled(_module_function, 1, b=2)
    assert function is this_module._module_function
    assert (args, kwargs) == ((1,), {"b": 2})
    assert packages == {"tests"}


def test_a_lambda_and_a_closure_travel_as_their_code() -> None:
    secret = 41
    (function, args, _), packages = _pickled(lambda one: secret + one, 1)
    assert function(*args) == 42
    assert "tests" not in packages


def test_packages_that_a_function_imports_when_it_runs_are_found() -> None:
    def inner() -> None:
        import somewhere.deep  # type: ignore[import-not-found]
        from elsewhere import thing  # type: ignore[import-not-found]

        print(somewhere, thing)

    def outer() -> None:
        import outermost  # type: ignore[import-not-found]

        print(outermost)
        inner()

    _, packages = _pickled(get_safe_experiment_fn("by_name.of_it.function"))
    assert "by_name" in packages
    _, packages = _pickled(functools.partial(outer))
    assert {"somewhere", "elsewhere", "outermost"} <= packages


class Session:
    def __init__(self) -> None:
        self.peers = {"a": [1, threading.Lock()]}

    def begin(self) -> None:
        """Do nothing."""


def test_what_cannot_be_pickled_is_named_with_the_way_to_it() -> None:
    session = Session()

    def train() -> None:
        print(session)

    with pytest.raises(SpecError) as caught:
        _pickled(train)
    assert str(caught.value).startswith(
        "train cannot be sent to the tasks: train's variable session.peers['a'][1], a "
        "_thread.lock, cannot be pickled: TypeError: cannot pickle '_thread.lock' object"
    )


@pytest.mark.parametrize(
    ("function", "args", "path"),
    [
        (functools.partial(print, threading.Lock()), (), r"print\.args\[0\], a _thread\.lock"),
        (print, ([{"k": threading.Lock()}],), r"args\[0\]\[0\]\['k'\], a _thread\.lock"),
        (Session().begin, (), r"begin\.__self__\.peers\['a'\]\[1\], a _thread\.lock"),
    ],
)
def test_arguments_methods_and_partials_are_looked_into(
    function: Any, args: tuple[object, ...], path: str
) -> None:
    with pytest.raises(SpecError, match=path):
        _pickled(function, *args)


class Stubborn:
    def __reduce__(self) -> str:
        raise RuntimeError("I stay here")


def test_an_object_that_refuses_is_named_itself() -> None:
    with pytest.raises(
        SpecError, match=r"args\[0\], a tests\.functions.*Stubborn, cannot .*I stay"
    ):
        _pickled(print, Stubborn())


def test_a_big_closure_is_told_with_its_size() -> None:
    weights = b"x" * BIG

    def train() -> int:
        return len(weights)

    told = describe_size(Call(train), BIG + 1000)
    assert told is not None
    assert told.startswith("train travels with 16.8 MB to each task: train's variable weights 16.8")
    assert describe_size(Call(train), BIG - 1) is None
