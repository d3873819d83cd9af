"""What masters have written of where they are, as a starter's process reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ytf.backends.yarn.find_master import read_masters
from ytf.backends.yarn.hdfs_layout import JobHome
from ytf.storage.local_files import LocalFiles


def test_the_newest_is_first_and_what_is_no_masters_is_left(tmp_path: Path) -> None:
    files = LocalFiles()
    home = JobHome.at(files, str(tmp_path / "jobs" / "a"))
    files.mkdir(home.masters)
    for attempt in range(2, 14):
        home.write_master(attempt, f"http://h:{attempt}", "s")
    home.write_master(13, "http://again:1", "s")
    files.write(f"{home.masters}/draft", [b"no number"])
    texts = list(read_masters(files, home.masters))
    assert [json.loads(text)["attempt"] for text in texts] == [13, 12, 11, 10, 9, 8, 7, 6]
    assert json.loads(texts[0]) == {"url": "http://h:13", "attempt": 13, "signature": "s"}


def test_no_file_is_read_beyond_what_a_master_writes(tmp_path: Path) -> None:
    (tmp_path / "7").write_bytes(b"\xff" * 10**6)
    (text,) = read_masters(LocalFiles(), str(tmp_path))
    assert len(text) <= 4096


def test_it_answers_also_where_there_is_no_hdfs(tmp_path: Path) -> None:
    conf = tmp_path / ".ytf" / "conf"
    conf.mkdir(parents=True)
    (conf / "core-site.xml").write_text("<configuration></configuration>")
    argv = [sys.executable, "-m", "ytf.backends.yarn.find_master", "hdfs://127.0.0.1:9/x"]
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["masters"] == []
    assert "127.0.0.1:9" in answer["error"]


def test_it_loads_no_protobuf_and_no_asynchronous_rpc() -> None:
    code = "import ytf.backends.yarn.find_master, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"google.protobuf", "ytf.hadoop.rpc.connection"} & set(loaded.stdout.split())
