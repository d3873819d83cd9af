"""Programs that ignore signals, do not start, or use too much disk or memory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.e2e.harness import FOREVER, HERE, HOLD, Ytf, is_alive, states, task, wait_dead

DAEMON = """\
import os, pathlib, signal, time
gate = pathlib.Path(os.environ["GATE"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        new = gate / "daemon.new"
        new.write_text(str(os.getpid()))
        new.rename(gate / "daemon")
        time.sleep(1000)
    os._exit(0)
os.wait()
while not (gate / "go").exists():
    time.sleep(0.02)
"""

HOARD = """\
import os, pathlib, time
block = bytearray(os.urandom(1 << 20)) * 200
pathlib.Path(os.environ["GATE"], "full").touch()
time.sleep(1000)
"""

SERVE = """\
import os, pathlib, socket, time
gate, port = pathlib.Path(os.environ["GATE"]), int(os.environ["YTF_TASK_PORT"])
name = "port." + os.environ["YTF_GENERATION"]
(gate / (name + ".new")).write_text(str(port))
(gate / (name + ".new")).rename(gate / name)
while not (gate / ("bind." + os.environ["YTF_GENERATION"])).exists():
    time.sleep(0.02)
socket.create_server(("127.0.0.1", port)).close()
"""


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(ytf: Ytf) -> None:
    job = ytf.submit_spec(
        groups={"ps": {"count": 1}, "worker": {"count": 1, "command": HERE + HOLD}},
        command=f"trap '' TERM; {HERE} {FOREVER}",
        timeouts={"stop_grace_s": 0.4},
    )
    job.wait_running("ps:0", "worker:0")
    stubborn = job.program("ps:0")
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert not is_alive(stubborn)
    assert task(status, "ps:0").state.value == "KILLED"


def test_what_a_program_leaves_running_goes_with_it(ytf: Ytf) -> None:
    fork = "(sleep 1000 & sleep 1001 & wait) & "
    leave = 'until [ -e "$GATE/leave.$DTF_TASK_INDEX" ]; do sleep 0.02; done'
    job = ytf.submit("worker:2", f"{fork} {HERE} {leave}")
    job.wait_running("worker:0", "worker:1")
    first, second = job.container("worker:0"), job.container("worker:1")
    assert len(first) >= 6, "starter, reaper, two shells, two sleeps"
    ytf.tell("leave.0")
    wait_dead(*first)
    ytf.tell("leave.1")
    job.end("SUCCEEDED")
    assert not any(map(is_alive, second[1:])), "dead before the job's end is told"


def test_a_daemon_that_cut_all_ties_goes_with_its_program(ytf: Ytf) -> None:
    (ytf.work / "daemon.py").write_text(DAEMON)
    job = ytf.submit("worker:1", "exec env -i GATE=$GATE $(command -v python3) daemon.py",
                     "--files", "daemon.py")  # fmt: skip
    daemon = int(ytf.told("daemon"))
    assert is_alive(daemon)
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert not is_alive(daemon), "dead before its end is told"


def test_a_program_may_become_another(ytf: Ytf) -> None:
    job = ytf.submit("worker:1", "exec python3 -c 'import sys; sys.exit(7)'")
    assert task(job.end("FAILED"), "worker:0").exit_code == 7


def test_logs_stay_within_their_limit(ytf: Ytf) -> None:
    noise = "head -c 25000000 /dev/zero | tr '\\0' x | fold -w 99; "
    older = '"$GATE"/../*/history/*/logs/worker-0/1/stdout.1'
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        command=f"{noise} until [ -e {older} ]; do sleep 0.05; done; {noise} echo; echo the end",
        log_limit_mb=1,
    )
    job.end("SUCCEEDED")
    logs = list((job.history / "logs" / "worker-0").rglob("*"))
    assert sum(path.stat().st_size for path in logs if path.is_file()) < 1.1 * (1 << 20)
    assert job.logs()[-1] == "worker:0 | the end"


def test_a_command_that_is_not_there(ytf: Ytf) -> None:
    status = ytf.submit("worker:2", "trian.py --steps 3").end("FAILED")
    assert "exited with code 127" in status.diagnostics
    assert "trian.py" in status.diagnostics
    assert "hint: the command was not found" in status.diagnostics


def test_a_starter_that_never_reports(ytf: Ytf, tmp_path: Path) -> None:
    # The dynamic linker opens this before it runs a program, and waits there for ever.
    never = tmp_path / "never"
    os.mkfifo(never)
    job = ytf.submit_spec(
        groups={
            "worker": {"count": 1},
            "stuck": {"count": 1, "task_env": {"LD_PRELOAD": str(never)}},
        },
        command=HERE + FOREVER,
        timeouts={"rendezvous_s": 1.5},
    )
    status = job.end("FAILED")
    assert "stuck:0 (not registered)" in status.diagnostics
    assert "within 1.5 s" in status.diagnostics
    assert states(status)["stuck:0"] == "KILLED"


def test_a_program_that_takes_more_memory_than_it_asked_for(ytf: Ytf) -> None:
    (ytf.work / "hoard.py").write_text(HOARD)
    words = ("-m", "64", "-m", "ps:1 GiB", "-s", "hoard.py")
    command = f"[ $DTF_TASK_JOB_NAME = ps ] && {FOREVER}; exec python3 $DTF_TASK_SCRIPT"
    job = ytf.submit("ps:1,worker:1", command, *words)
    status = job.end("FAILED")
    assert "worker:0 " in status.diagnostics
    used = int(status.diagnostics.split(" used ", 1)[1].split()[0])
    assert 64 < used < 300
    assert "had asked for 64 MB" in status.diagnostics
    assert "hoard.py" in status.diagnostics
    assert states(status)["worker:0"] == "FAILED"


def test_a_stolen_port_costs_a_restart_that_does_not_count(ytf: Ytf) -> None:
    (ytf.work / "serve.py").write_text(SERVE)
    job = ytf.submit("worker:1", "python3 $DTF_TASK_SCRIPT", "-s", "serve.py")
    stolen = int(ytf.told("port.1"))
    with socket.create_server(("127.0.0.1", stolen)):
        ytf.tell("bind.1")
        another = int(ytf.told("port.2"))
        assert another != stolen
        ytf.tell("bind.2")
        status = job.end("SUCCEEDED")
    assert task(status, "worker:0").port == another
    assert task(status, "worker:0").attempt == 2


def test_a_program_that_cannot_be_quiet_about_its_end(ytf: Ytf) -> None:
    """Bytes that are no text, and a line without end, go through to the diagnostics."""
    command = "printf 'caf\\351 \\377\\n' >&2; head -c 100000 /dev/zero | tr '\\0' y >&2; exit 1"
    status = ytf.submit("worker:1", command).end("FAILED")
    assert "exited with code 1" in status.diagnostics
    assert "yyyy" in status.diagnostics
    assert len(status.diagnostics) < 6000
