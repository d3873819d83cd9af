"""Hadoop's own tools see a job of ours as any good application; its own library works in tasks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from tests.yarn.driver import HERE, HOLD, Yarn
from ytf.minicluster.releases import fetch

_CLI = "org.apache.hadoop.yarn.client.cli"
FIRST_ENDS = '[ "$DTF_TASK_INDEX" != 0 ] || exit 0; '


def test_hadoops_own_commands_follow_move_and_kill_a_job(yarn: Yarn, gate: str) -> None:
    job = yarn.submit("worker:2", gate + 'echo "I am $YTF_TASK"; ' + HERE + FIRST_ENDS + HOLD)
    yarn.wait_running(["worker:0", "worker:1"])
    # Both programs have run, which is one half, and one of two has ended.
    yarn.wait_until_yarn_knows(job, progress=75.0)

    listed = _java(yarn, "ApplicationCLI", "application", "-list", "-appTypes", "YTF")
    line = next(line.split("\t") for line in listed.splitlines() if job in line)
    found = [word.strip() for word in line]
    assert found[:7] == [job, "TensorFlow", "YTF", _rest(yarn, job)["user"], "root.default",
                         "RUNNING", "UNDEFINED"]  # fmt: skip
    assert found[7] == "75%"

    told = _fields(_java(yarn, "ApplicationCLI", "application", "-status", job))
    assert told["Application-Type"] == "YTF"
    assert told["Progress"] == "75%"
    rest = _rest(yarn, job)
    assert re.fullmatch(r"[^:]+:\d+", rest["amRPCAddress"])
    host, _, port = rest["amRPCAddress"].rpartition(":")
    assert (told["AM Host"], told["RPC Port"]) == (host, port)
    # This one shows where the master itself is, the other the way through the proxy.
    assert told["Tracking-URL"].startswith(f"http://{host}:{port}")
    assert job in rest["trackingUrl"]

    _java(yarn, "ApplicationCLI", "application", "-changeQueue", "ml", "-appId", job)
    assert _rest(yarn, job)["queue"] in ("ml", "root.ml")
    moved = yarn.status(job)
    assert (moved["state"], moved["queue"]) == ("RUNNING", _rest(yarn, job)["queue"])

    _java(yarn, "ApplicationCLI", "application", "-kill", job)
    status = yarn.wait(job, "KILLED")
    assert "killed by user" in status["diagnostics"]
    assert [task["state"] for task in status["tasks"]] == ["SUCCEEDED", "LOST"]
    yarn.nothing_is_left(job)
    assert "worker:1 | I am worker:1" in yarn.run("ytf", "logs", job).stdout.splitlines()
    aggregated = _java(yarn, "LogsCLI", "-applicationId", job)
    assert "LogType:worker-1.1.stdout" in aggregated
    assert "I am worker:1" in aggregated.splitlines()


# What Hadoop's command does for these words, without its many other files.
HADOOP = """#!/bin/sh
[ "$*" = "classpath --glob" ] || exit 9
export CLASSPATH="$HADOOP_CONF_DIR:{jars}"
exec "$JAVA_HOME/bin/java" org.apache.hadoop.util.Classpath --glob
"""
LIBHDFS = Path(__file__).parents[2] / ".cache" / "libhdfs" / "lib"
LIBHDFS_PROGRAM = """\
import ctypes, os, sys
pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
library = ctypes.CDLL("libhdfs.so")
def call(name, result, *given):
    function = getattr(library, name)
    function.restype, function.argtypes = result, [kind for kind, _ in given]
    returned = function(*(value for _, value in given))
    assert returned not in (None, -1), name
    return returned
hdfs = pointer, call("hdfsConnect", pointer, (text, b"default"), (ctypes.c_uint16, 0))
def open_file(path, flags):
    rest = (number, 0), (ctypes.c_short, 0), (ctypes.c_int32, 0)
    return pointer, call("hdfsOpenFile", pointer, hdfs, (text, path), (number, flags), *rest)
at = sys.argv[1].encode()
place = ctypes.create_string_buffer(100)
file = open_file(at + b"/told", os.O_RDONLY)
length = call("hdfsRead", number, hdfs, file, (pointer, ctypes.addressof(place)), (number, 100))
file = open_file(at + b"/answer", os.O_WRONLY)
call("hdfsWrite", number, hdfs, file, (text, place.raw[:length].upper()), (number, length))
call("hdfsCloseFile", number, hdfs, file)
"""


def test_hadoops_own_library_works_in_a_task(yarn: Yarn) -> None:
    assert LIBHDFS.exists(), "scripts/environment libhdfs makes it"
    home = yarn.work / "hadoop"
    (home / "bin").mkdir(parents=True)
    (home / "lib").symlink_to(LIBHDFS)
    jars = fetch(yarn.cluster.options.version, print).jar_path()
    (home / "bin" / "hadoop").write_text(HADOOP.format(jars=jars))
    (home / "bin" / "hadoop").chmod(0o755)
    (yarn.work / "program.py").write_text(LIBHDFS_PROGRAM)
    folder = f"/tmp/{yarn.work.name}"
    yarn.files.mkdir(folder)
    yarn.files.write(f"{folder}/told", [b"by another client"])

    command = f"{sys.executable} $DTF_TASK_SCRIPT {folder}"
    options = ("--libhdfs", "--task_env", f"HADOOP_HOME={home}", "-m", "worker:1024")
    job = yarn.submit("worker:1", command, "-s", "program.py", *options)
    said = yarn.run("ytf", "logs", "-f", job).stdout
    assert yarn.status(job)["final_status"] == "SUCCEEDED", said
    assert b"".join(yarn.files.read(f"{folder}/answer")) == b"BY ANOTHER CLIENT"


def _java(yarn: Yarn, program: str, *arguments: str) -> str:
    done = yarn.cluster.java(f"{_CLI}.{program}", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rest(yarn: Yarn, job: str) -> dict[str, Any]:
    found: dict[str, Any] = yarn.cluster.rm_rest(f"/apps/{job}")["app"]
    return found


def _fields(report: str) -> dict[str, str]:
    """``name : value`` lines of ``yarn application -status``."""
    lines = (line.strip().partition(" : ") for line in report.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
