"""``ytf.minicluster`` is importable by users' tests, and ``ytf --help`` does not import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ytf import minicluster


def test_the_public_names() -> None:
    assert sorted(minicluster.__all__) == [
        "ClusterError",
        "ClusterOptions",
        "DaemonStatus",
        "MiniCluster",
        "Queue",
        "VERSIONS",
        "ZooKeeperEnsemble",
    ]
    assert all(hasattr(minicluster, name) for name in minicluster.__all__)


@pytest.mark.parametrize("words", [["--help"], ["cluster", "--help"], ["cluster", "up", "--help"]])
def test_help_does_not_import_it(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from ytf.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('ytf.minicluster')])"
    )
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
