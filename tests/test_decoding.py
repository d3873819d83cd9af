from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from ytf.decoding import convert, decode_json

CRASH = """
import sys, threading
from ytf.specs.job import JobSpec
from ytf.decoding import convert
sys.setswitchinterval(1e-6)  # threads take turns in the midst of everything
data = {"groups": {"worker": {"count": 1}}, "command": "true"}
threads = [threading.Thread(target=convert, args=(data, JobSpec)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


class Pair(msgspec.Struct):
    name: str
    inner: Pair | None = None


def test_texts_and_plain_data_become_objects() -> None:
    data = {"name": "a", "inner": {"name": "b"}}
    assert decode_json(json.dumps(data), Pair) == convert(data, Pair) == Pair("a", Pair("b"))
    with pytest.raises(msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$\.name`"):
        convert({"name": 1}, Pair)
    with pytest.raises(msgspec.DecodeError):
        decode_json(b"{", Pair)


def test_threads_that_decode_a_class_for_the_first_time_do_not_crash() -> None:
    for _ in range(10):
        subprocess.run([sys.executable, "-c", CRASH], check=True, timeout=60)
