"""Calls the function of a job in one process of a task, and writes down what it returned.

Shipped to the task in a directory, beside what ``ytf.functions.payload`` has put there, and
run by the user's Python, which needs nothing of ytf. Of a process with the local rank n
there are then in ``ytf_results``, in the working directory:

``n.begun``    empty: the process has begun;
``n.value``    what the function returned, as a pickle; or else
``n.json``     what it raised, as text: ``type``, ``message``, ``traceback``, and
``n.error``    the exception itself, as a pickle, if it can be pickled.
"""

import contextlib
import json
import os
import pickle
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = "ytf_results"
_MOST_TEXT = 1 << 20
"""The longest traceback that is kept, in characters."""


class FunctionError(Exception):
    """The function could not be called, or what it returned cannot travel."""


def main() -> None:
    """Call the function; the exit code is 0 only if it has returned and its value is written."""
    os.makedirs(RESULTS, exist_ok=True)
    rank = os.environ.get("YTF_LOCAL_RANK", "0")
    # What an earlier attempt in the same container has left.
    for kind in ("value", "json", "error"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_place(rank, kind))
    with open(_place(rank, "begun"), "wb"):
        pass
    try:
        value = _call()
        _write(rank, "value", value)
    except SystemExit as exc:
        if exc.code in (None, 0):
            _write(rank, "value", None)
        else:
            _fail(rank, exc)
        raise
    except BaseException as exc:
        _fail(rank, exc)
        sys.stdout.flush()
        sys.stderr.write(_text(exc))
        sys.exit(1)


def _call() -> object:
    with open(os.path.join(HERE, "function.json"), encoding="utf-8") as file:
        about = json.load(file)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if here != about["python"]:
        raise FunctionError(
            f"the function is of Python {about['python']}, and {sys.executable} on this node is "
            f"Python {here}: give the job an environment of Python {about['python']}, for example "
            "with env='current'"
        )
    sys.path[0] = HERE
    # The one that has pickled the function reads it, whichever the environment has.
    __import__("cloudpickle")
    sys.path[:1] = [os.getcwd(), os.path.join(HERE, "code")]
    with open(os.path.join(HERE, "function.pickle"), "rb") as file:
        try:
            function, args, kwargs = pickle.load(file)
        except ImportError as exc:
            raise FunctionError(
                f"{about['name']} needs a module that is not in the task's environment: {exc}"
            ) from exc
    return function(*args, **kwargs)


def _fail(rank: str, exc: BaseException) -> None:
    """Write what was raised. A full disk leaves at least the text in the task's stderr."""
    with contextlib.suppress(OSError):
        text = _text(exc)
        if len(text) > _MOST_TEXT:
            text = text[: _MOST_TEXT // 2] + "\n[…]\n" + text[-_MOST_TEXT // 2 :]
        about = {"type": type(exc).__name__, "message": _message(exc), "traceback": text}
        with open(_place(rank, "json"), "w", encoding="utf-8") as file:
            json.dump(about, file)
        with contextlib.suppress(FunctionError):
            _write(rank, "error", exc)


def _write(rank: str, kind: str, value: object) -> None:
    """Pickle a value into its file, whole or not at all."""
    place = _place(rank, kind)
    try:
        with open(place + ".new", "wb") as file:
            sys.modules["cloudpickle"].dump(value, file)
    except OSError:
        raise
    except Exception as exc:
        os.unlink(place + ".new")
        did = "returned" if kind == "value" else "raised"
        raise FunctionError(
            f"what the function {did}, a {type(value).__qualname__}, cannot be pickled: "
            f"{type(exc).__name__}: {exc}"
        ) from exc
    os.rename(place + ".new", place)


def _place(rank: str, kind: str) -> str:
    return os.path.join(RESULTS, f"{rank}.{kind}")


def _text(exc: BaseException) -> str:
    """The traceback without the frames of this file, which say nothing to a user."""
    tb = exc.__traceback__
    while tb is not None and os.path.abspath(tb.tb_frame.f_code.co_filename) == _OWN_FILE:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(exc), exc, tb))


def _message(exc: BaseException) -> str:
    try:
        return str(exc)[:_MOST_TEXT]
    except Exception:
        return "its text could not be made"


_OWN_FILE = os.path.abspath(__file__)

if __name__ == "__main__":
    main()
