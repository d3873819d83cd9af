"""The whole starter, as a process of its own, against a master that is not ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.starter.conftest import (
    PATIENCE_S,
    PYTHON,
    is_alive,
)
from tests.starter.fake_master import SECRET, FakeMaster
from tests.starter.steps import FOREVER, Start, run_to, says
from ytf.backends.launch import starter_command
from ytf.specs.usage import TaskUsage
from ytf.starter.process_tree import scan_descendants
from ytf.testing.waiting import eventually

STUBBORN = "trap '' TERM; sleep 1000 & echo ready; while :; do sleep 0.05; done"


def test_from_registration_to_stop(master: FakeMaster, start: Start) -> None:
    starter = start(
        'echo "$DTF_WORKER_HOSTS $YTF_TASK_PORT ${YTF_STARTER-unset}"; '
        "cat \"$YTF_CLUSTER_SPEC_FILE\"; echo 'that was it' >&2; exit 3"
    )
    registered = master.expect("register", 0)
    assert {k: registered[k] for k in ("task", "attempt", "container", "host")} == {
        "task": "worker:0",
        "attempt": 0,
        "container": "c1",
        "host": "127.0.0.1",
    }
    assert registered["control"].startswith("127.0.0.1:")
    address = master.meet()
    assert master.expect("started", 0) == {"task": "worker:0", "attempt": 0, "container": "c1"}
    exited = master.expect("exited", 0)
    assert (exited["exit_code"], exited["signal"], exited["reason"]) == (3, None, "")
    assert exited["tail"] == "that was it"
    assert abs(exited["ended_at"] - time.time()) < 30
    first, spec = starter.output().splitlines()
    assert first == f"{address} {registered['port']} unset"
    assert json.loads(spec) == {"generation": 0, "revision": 1, "members": {"worker": [address]}}
    master.order(stop=True)
    assert starter.wait() == 0
    assert [report.kind for report in master.reports] == ["register", "started", "exited"]
    assert list(starter.cwd.iterdir()) == []
    assert SECRET.decode() not in starter.log.read_text()


def test_heartbeats_and_the_exit_tell_what_the_program_uses(
    master: FakeMaster, start: Start
) -> None:
    starter = start(
        "echo '{\"step\": 3}' > $YTF_METRICS_FILE; "
        "python3 -c 'x = bytearray(50000000); import os, time\n"
        'while not os.path.exists("go"): time.sleep(0.05)\'; true'
    )
    master.meet()
    master.expect("started", 0)
    big = 47 * 1024 * 1024
    master.wait_for(
        lambda: any(p.get("usage", {}).get("memory_bytes", 0) > big for p in master.polls),
        "a heartbeat tells of its memory",
    )
    told = msgspec.convert(master.polls[-1]["usage"], TaskUsage)
    assert told.attempt == 0
    assert told.processes >= 2
    assert told.metrics == {"step": 3.0}
    next(starter.cwd.glob(".ytf-metrics-*")).write_text('{"step": 4}')
    (starter.cwd / "go").touch()
    exited = msgspec.convert(master.expect("exited", 0)["usage"], TaskUsage)
    assert exited.peak_memory_bytes >= told.memory_bytes
    assert exited.elapsed_s >= told.elapsed_s
    assert exited.metrics == {"step": 4.0}


def test_after_its_exit_it_goes_on_polling(master: FakeMaster, start: Start) -> None:
    starter = start("true")
    master.meet()
    master.expect("exited", 0)
    seen = len(master.polls)
    master.wait_for(lambda: len(master.polls) >= seen + 2, "polls after the exit")
    assert starter.process.poll() is None


def test_it_waits_for_a_spec_with_its_own_address(master: FakeMaster, start: Start) -> None:
    start("true")
    body = master.expect("register", 0)
    mine = f"127.0.0.1:{body['port']}"
    for generation, host in [(1, mine), (0, "127.0.0.1:1")]:
        master.publish(generation, {"worker": [host]})
        master.wait_for(lambda: master.revision in {p["revision"] for p in master.polls}, "a poll")
    assert [report.kind for report in master.reports] == ["register"]
    master.publish(0, {"worker": [mine]})
    master.expect("started", 0)


def test_a_client_needs_only_the_generation(master: FakeMaster, start: Start) -> None:
    starter = start('echo "$TF_CONFIG"', group="client", port="none")
    assert master.expect("register", 0)["port"] is None
    master.publish(0, {"worker": ["a:1"]})
    master.expect("exited", 0)
    assert json.loads(starter.output()) == {
        "cluster": {"worker": ["a:1"]},
        "task": {"type": "client", "index": 0},
    }


def test_without_peers_to_wait_for_it_runs_once_registered(
    master: FakeMaster, start: Start
) -> None:
    starter = start('cat "$YTF_CLUSTER_SPEC_FILE"', group="tensorboard", wait_for_peers=False)
    assert master.expect("exited", 0)["exit_code"] == 0
    assert json.loads(starter.output())["members"] == {}


def test_each_new_revision_reaches_the_running_program(master: FakeMaster, start: Start) -> None:
    starter = start('f="$YTF_CLUSTER_SPEC_FILE"; until grep -q other "$f"; do sleep 0.01; done')
    address = master.meet()
    master.expect("started", 0)
    master.publish(0, {"worker": [address, "other:1"]})
    assert master.expect("exited", 0)["exit_code"] == 0
    assert starter.process.poll() is None


def test_any_quoting_and_unicode_survive(master: FakeMaster, start: Start) -> None:
    starter = start(
        """printf '%s|' "$X" 'a  b' "c'd" $'t\\tt' ü""", environ={"X": 'naïve "quotes" $HOME'}
    )
    master.meet()
    master.expect("exited", 0)
    assert starter.output() == 'naïve "quotes" $HOME|a  b|c\'d|t\tt|ü|'


def test_the_environment_is_the_containers_own(master: FakeMaster, start: Start) -> None:
    starter = start("env | cut -d= -f1 | sort")
    master.meet()
    master.expect("exited", 0)
    names = set(starter.output().split())
    assert names - {n for n in names if n.startswith(("DTF_", "YTF_", "TF_"))} == {
        "PATH", "PWD", "SHLVL", "_",
    }  # fmt: skip


def test_an_order_with_a_higher_attempt_restarts(master: FakeMaster, start: Start) -> None:
    starter = start("trap 'echo saved; exit 0' TERM; echo $YTF_ATTEMPT $YTF_GENERATION ready; "
                    "while :; do sleep 0.01; done")  # fmt: skip
    run_to(master, starter)
    old = starter.processes()
    master.order(attempt=1, generation=1)
    second = master.expect("register", 1)
    assert not any(is_alive(pid) for pid in old)
    assert second["port"] == master.expect("register", 0)["port"]
    master.meet(attempt=1, generation=1)
    master.expect("started", 1)
    eventually(lambda: starter.output(1) == "1 1 ready\n", describe="the second attempt")
    assert starter.output(0) == "0 0 ready\nsaved\n"
    kinds = [(report.kind, report.body["attempt"]) for report in master.reports]
    assert kinds == [("register", 0), ("started", 0), ("register", 1), ("started", 1)]


def test_a_restart_after_the_program_ended(master: FakeMaster, start: Start) -> None:
    starter = start("exit $((1 - YTF_ATTEMPT))", port="release")
    master.meet()
    assert master.expect("exited", 0)["exit_code"] == 1
    master.order(attempt=1)
    master.meet(attempt=1)
    assert master.expect("exited", 1)["exit_code"] == 0
    assert starter.process.poll() is None


def test_a_restart_while_waiting(master: FakeMaster, start: Start) -> None:
    start("true")
    master.expect("register", 0)
    master.order(attempt=4, generation=2)
    master.meet(attempt=4, generation=2)
    master.expect("exited", 4)
    assert [r.body["attempt"] for r in master.reports if r.kind == "started"] == [4]


def test_a_stop_while_waiting(master: FakeMaster, start: Start) -> None:
    starter = start("true")
    master.expect("register", 0)
    master.order(stop=True)
    assert starter.wait() == 0
    assert [report.kind for report in master.reports] == ["register"]


def test_a_stop_ends_the_program_and_is_not_an_exit(master: FakeMaster, start: Start) -> None:
    starter = start(FOREVER)
    run_to(master, starter)
    below = starter.processes()
    assert below
    master.order(stop=True)
    assert starter.wait() == 0
    assert not any(is_alive(pid) for pid in below)
    assert [report.kind for report in master.reports] == ["register", "started"]


def test_a_stop_kills_the_stubborn_after_the_grace(master: FakeMaster, start: Start) -> None:
    starter = start(STUBBORN)
    run_to(master, starter)
    below = starter.processes()
    began = time.monotonic()
    master.order(stop=True, grace_s=0.5)
    assert starter.wait() == 0
    assert time.monotonic() - began >= 0.5
    assert not any(is_alive(pid) for pid in below)


def test_a_revoked_container_kills_at_once(master: FakeMaster, start: Start) -> None:
    starter = start(STUBBORN, grace_s=600.0)
    run_to(master, starter)
    below = starter.processes()
    began = time.monotonic()
    master.revoked = True
    master.order()
    assert starter.wait() == 3
    assert time.monotonic() - began < 60
    assert not any(is_alive(pid) for pid in below)
    assert "revoked" in starter.log.read_text()


def test_a_revocation_of_the_registration(master: FakeMaster, start: Start) -> None:
    master.revoked = True
    assert start("true").wait() == 3


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_the_starter_is_a_stop(
    signum: int, code: int, master: FakeMaster, start: Start
) -> None:
    starter = start(STUBBORN, grace_s=0.3)
    run_to(master, starter)
    below = starter.processes()
    starter.process.send_signal(signum)
    assert starter.wait() == code
    assert not any(is_alive(pid) for pid in below)


def test_signals_are_forwarded(master: FakeMaster, start: Start) -> None:
    starter = start(
        "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo hup' HUP; echo ready; "
        "while :; do sleep 0.01; done"
    )
    run_to(master, starter)
    for signum, text in [(10, "usr1"), (12, "usr2"), (1, "hup")]:
        starter.process.send_signal(signum)
        eventually(partial(says, starter, text), describe=text)


def test_a_starter_killed_with_9_takes_everything_along(master: FakeMaster, start: Start) -> None:
    starter = start("trap '' TERM; (trap '' TERM; setsid sleep 1000) & " + FOREVER)
    run_to(master, starter)
    below = starter.processes()
    assert len(below) >= 3
    starter.process.kill()
    assert starter.wait() == -9
    eventually(lambda: not any(is_alive(pid) for pid in below), describe=f"the end of {below}")


def test_a_reaper_killed_with_9_is_a_failure_that_leaves_nothing(
    master: FakeMaster, start: Start
) -> None:
    starter = start("(setsid sleep 1000) & " + FOREVER)
    run_to(master, starter)
    reaper, *below = starter.processes()
    os.kill(reaper, signal.SIGKILL)
    exited = master.expect("exited", 0)
    assert (exited["exit_code"], exited["signal"]) == (None, 9)
    assert "watched over it" in exited["reason"]
    assert not any(is_alive(pid) for pid in below)
    assert starter.processes() == []


def test_the_death_of_the_parent_ends_it(tmp_path: Path, master: FakeMaster) -> None:
    launcher = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from tests.starter.conftest import RunningStarter\n"
        f"s = RunningStarter(Path({str(tmp_path)!r}), {master.url!r}, {STUBBORN!r})\n"
        "print(s.pid, flush=True); s.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", launcher], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        master.meet()
        master.expect("started", 0)
        below = scan_descendants(pid)
        parent.kill()
    eventually(lambda: not any(is_alive(p) for p in [pid, *below]), describe="the starter's end")
    assert "leaving with exit code 5" in (tmp_path / "starter.log").read_text()


def test_a_parent_that_is_already_gone(start: Start, master: FakeMaster) -> None:
    starter = start("true", parent=1)
    assert starter.wait() == 5
    assert master.reports == []


BROKEN = {
    "before it begins": (
        "import ytf.starter.config as c; c.StarterConfig.secret = lambda self: 1 / 0"
    ),
    "at the rendezvous": "import ytf.starter.starter as s; s.HOOKS = (lambda *_: 1 / 0,)",
    "beside the program": (
        "import ytf.starter.attempt as a; a.log = lambda text: 'runs as' in text and 1 / 0"
    ),
}


@pytest.mark.parametrize("where", BROKEN)
def test_a_bug_of_ours_is_told_in_one_line_and_leaves_nothing(
    master: FakeMaster, start: Start, where: str
) -> None:
    *words, code = starter_command(PYTHON)
    prepare, run, main = code.rpartition("from ytf.starter.__main__")
    broken = f"{prepare}\n{BROKEN[where]}\n{run}{main}"
    starter = start("trap '' TERM; echo $$ > pid; sleep 1000", argv=[*words, broken])
    if where == "beside the program":
        master.meet()
    assert starter.wait() == 70
    assert starter.processes() == []
    lines = starter.log.read_text().splitlines()
    assert len([line for line in lines if "a bug in ytf, please report it" in line]) == 1
    assert "ZeroDivisionError" in lines[-1]
    assert "Traceback" not in lines[-1]
    pid = starter.cwd / "pid"
    assert not (pid.exists() and pid.read_text() and is_alive(int(pid.read_text())))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"port": "perhaps"}, "'port' must be one of"),
        ({"registry": "zookeeper"}, "'registry' must be one of rest, zk, not 'zookeeper'"),
        ({"framework": "keras"}, "there is no framework 'keras'"),
        ({"secret_file": "/no/such/file"}, "secret cannot be read"),
    ],
)
def test_what_it_cannot_begin_with(
    settings: dict[str, object], message: str, start: Start, master: FakeMaster
) -> None:
    starter = start("true", **settings)
    assert starter.wait() == 6
    assert message in starter.log.read_text()
    assert "Traceback" not in starter.log.read_text()


def test_logs_that_cannot_be_written_are_the_reason(
    master: FakeMaster, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "blocked").write_text("a file")
    start("true", log_dir=str(tmp_path / "blocked" / "logs"))
    master.meet()
    exited = master.expect("exited", 0)
    assert exited["exit_code"] == 126
    assert "Not a directory" in exited["reason"]
    assert "started" not in [report.kind for report in master.reports]


def test_a_full_disk_is_the_reason(master: FakeMaster, start: Start, tmp_path: Path) -> None:
    starter = start("true")
    master.expect("register", 0)
    (starter.cwd / ".ytf-cluster-spec-c1.json.new").symlink_to("/dev/full")
    master.meet()
    exited = master.expect("exited", 0)
    assert exited["exit_code"] == 126
    assert "No space left on device" in exited["reason"]
    master.order(stop=True)
    assert starter.wait() == 0
    assert "Traceback" not in starter.log.read_text()


def test_at_a_terminal_the_program_has_the_starters_own_streams(
    master: FakeMaster, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    given = {
        "job": "local_1", "container": "c9", "attempt": 0, "generation": 0, "master": master.url,
        "secret_file": str(tmp_path / "secret"), "log_dir": None, "port": "none",
        "framework": "none", "registry": "rest", "host": "127.0.0.1",
    }  # fmt: skip
    env = {
        "PATH": os.environ["PATH"],
        "DTF_TASK_PROGRAM": "read line; echo you said $line; sleep 1000 & wait",
        "DTF_TASK_JOB_NAME": "client",
        "DTF_TASK_INDEX": "0",
        "YTF_STARTER": json.dumps(given),
    }
    with subprocess.Popen(
        starter_command(sys.executable),
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as starter:
        try:
            master.expect("register", 0)
            master.publish(0, {})
            assert starter.stdin
            assert starter.stdout
            starter.stdin.write(b"hello\n")
            starter.stdin.flush()
            assert starter.stdout.readline() == b"you said hello\n"
            below = scan_descendants(starter.pid)
            assert {os.getpgid(pid) for pid in below} == {starter.pid}
            os.killpg(starter.pid, signal.SIGINT)  # Ctrl-C
            assert starter.wait(PATIENCE_S) == 130
            assert not any(is_alive(pid) for pid in below)
        finally:
            if starter.poll() is None:
                starter.kill()


def test_an_environment_that_cannot_be_made_is_told_without_waiting_for_others(
    master: FakeMaster, start: Start
) -> None:
    starter = start("true", environment={"manifest": "no.json", "layers": []})
    exited = master.expect("exited", 0)
    assert exited["exit_code"] == 126
    assert "the environment's manifest cannot be read" in exited["reason"]
    master.order(stop=True)
    assert starter.wait() == 0


def test_an_environment_is_found_first(master: FakeMaster, start: Start, tmp_path: Path) -> None:
    for place in ("layer/bin", "base/bin"):
        (tmp_path / place).mkdir(parents=True)
    tool = tmp_path / "layer/bin/tool"
    tool.write_text("#!/bin/sh\necho found in $VIRTUAL_ENV\n")
    tool.chmod(0o755)
    plan = {
        "version": 2,
        "layers": 2,
        "executable": "bin/python",
        "library_path": False,
        "python": "3.11",
        "tree": {"bin": {"tool": 0}},
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    places = [str(tmp_path / "layer"), str(tmp_path / "base")]
    (tmp_path / "work" / ".ytf").mkdir(parents=True)
    starter = start("tool", environment={"manifest": str(tmp_path / "plan.json"), "layers": places})
    master.meet()
    assert master.expect("exited", 0)["exit_code"] == 0
    said = (starter.log_dir / "0" / "stdout").read_text()
    assert said == f"found in {starter.cwd}/.ytf/environment\n"
