"""``ytf list`` on a real terminal of 80 columns, as a user sees it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path


def on_terminal(*words: str, columns: int) -> list[str]:
    """The lines that a command prints on a terminal of this width."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from ytf.cli.entry import ytf; sys.exit(ytf())",
            *words,
        ],
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        env={**env, "TERM": "xterm"},
    )
    os.close(its)
    seen = b""
    with contextlib.suppress(OSError):  # Linux reports EIO when the command has closed its end
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    assert command.wait() == 0, seen
    return re.sub(r"\x1b\[[0-9;]*m", "", seen.decode()).splitlines()


def record(number: int) -> str:
    """Make the record of an ended job, and return its id."""
    job = f"local_20261116212931_{number:04x}"
    folder = Path(os.environ["YTF_HOME"], "history", job)
    folder.mkdir(parents=True)
    ended = time.time() - number
    about = {
        "id": job,
        "name": "a name that is far too long for a terminal",
        "user": "a_user_with_a_name",
        "queue": "root.teams.default",
        "backend": "local",
        "state": "SUCCEEDED",
        "final_status": "SUCCEEDED",
        "started": ended - 90,
        "finished": ended,
    }
    text = json.dumps({"status": about, "spec": {}, "cluster_spec": None, "events": []})
    (folder / "record.json").write_text(text)
    return job


def test_ids_are_whole_whatever_the_width_and_old_jobs_are_counted() -> None:
    jobs = [record(number) for number in range(1, 24)]
    head, *lines, last = on_terminal("list", columns=80)
    assert head.split() == ["ID", "NAME", "STATE", "STARTED", "TOOK"]
    assert [line.split()[0] for line in lines] == jobs[:20]
    assert all("…" in line and " SUCCEEDED " in line for line in lines)
    assert max(map(len, lines)) == 80
    assert last == "ytf: 3 older jobs are not shown: --all shows them"

    _, *lines = on_terminal("list", "--all", columns=40)
    assert [line.split()[0] for line in lines] == jobs
    head, *lines = on_terminal("list", "-n", "1", columns=200)
    assert head.split() == ["ID", "NAME", "USER", "STATE", "QUEUE", "STARTED", "TOOK"]
    assert "…" not in lines[0]
