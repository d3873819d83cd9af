"""The stand-in for typing_extensions: our processes never load it, others do as before."""

from __future__ import annotations

import subprocess
import sys

BEGIN = "import sys; from ytf.lightness import without_typing_extensions as w; w(); "
OURS = "import msgspec, hdfs_native, ytf.backends.yarn.jobs, ytf.master.attempt; "


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_our_own_processes_do_without_it() -> None:
    loaded = "'__file__' in vars(sys.modules['typing_extensions'])"
    # Before 3.11 typing does not have the names.
    assert run(f"{OURS} print({loaded})") == str(sys.version_info < (3, 11))


def test_whoever_wants_more_of_it_gets_the_real_one() -> None:
    code = "from typing_extensions import Doc, deprecated; import typing_extensions as t; "
    assert run(f"{OURS}{code} print(Doc('x').documentation, t.Doc is Doc, bool(t.__file__))") == (
        "x True True"
    )


def test_one_that_is_loaded_stays() -> None:
    code = "import typing_extensions as real; w(); print(sys.modules[real.__name__] is real)"
    assert run(f"sys.modules.pop('typing_extensions', None); {code}") == "True"
