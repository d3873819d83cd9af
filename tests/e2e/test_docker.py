"""Jobs whose tasks run in a docker image, with a real engine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from tests import engine as engines
from tests.e2e.harness import (
    FOREVER,
    HERE,
    HOLD,
    Job,
    Ytf,
    kill,
    listening_ports,
    states,
    stop,
    task,
    wait_dead,
)
from tests.e2e.network import other_machine
from tests.e2e.test_monitoring import usage_when
from tests.engine import Engine
from ytf.testing.waiting import eventually

Submit = Callable[..., Job]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.started() as engine:
        yield engine


@pytest.fixture
def submit(ytf: Ytf, engine: Engine) -> Iterator[Submit]:
    """Submit a job in an image; the gate is its output path, which is mounted."""
    ytf.env.update(engine.settings, YTF_DOCKER_ENGINE="podman")

    def begin(command: str, *options: str, requirement: str = "worker:1") -> Job:
        return ytf.submit(
            requirement,
            command,
            *("--docker_image", engines.IMAGE),
            *("-o", str(ytf.gate), "--task_env", f"GATE={ytf.gate}"),
            *options,
        )

    yield begin
    left = engine.containers()
    engine.run("rm", "-f", "-a", "-t", "0")
    assert left == []


def lines_of(job: Job, which: str) -> list[str]:
    """The task's output, without whose it is."""
    return [line.split(" ", 2)[2] for line in job.logs(which)]


def test_life(ytf: Ytf, submit: Submit) -> None:
    """Files, variables, addresses, logs, and who owns what is written."""
    script = ytf.work / "the script.sh"
    script.write_text("cat $DTF_TASK_SCRIPT | head -1; cat data/x; echo oh >&2\n")
    (ytf.work / "data").mkdir()
    (ytf.work / "data" / "x").write_text("shipped ✓\n")
    text = "two\nlines of $HOME and 'ünïcode'"
    show = 'printf "%s" "$TEXT" >"$DTF_OUTPUT_PATH/$YTF_TASK.txt"; cat "$YTF_CLUSTER_SPEC_FILE"; '
    job = submit(
        show + "sh $DTF_TASK_SCRIPT; echo $DTF_DOCKER_IMAGE $CONTAINERS_CONF; "
        'ls "$TF_PLUGGABLE_DEVICE_LIBRARY_PATH"',
        *("--framework", "tensorflow"),
        *("-s", str(script), "--files", str(ytf.work / "data"), "--task_env", f"TEXT={text}"),
        requirement="worker:2",
    )
    status = job.end("SUCCEEDED")
    assert states(status) == {"worker:0": "SUCCEEDED", "worker:1": "SUCCEEDED"}
    for index in (0, 1):
        written = ytf.gate / f"worker:{index}.txt"
        assert written.read_text() == text
        assert written.stat().st_uid == os.getuid()
    lines = lines_of(job, "worker:1")
    assert any(f'"127.0.0.1:{task(status, "worker:1").port}"' in line for line in lines)
    assert "shipped ✓" in lines
    assert "oh" in lines
    assert engines.IMAGE in lines
    assert "libytf_tensorflow_hdfs.so" in lines, "the plugin is mounted"


def test_files_are_staged_and_checkpoints_synced(ytf: Ytf, submit: Submit) -> None:
    (ytf.work / "data").mkdir()
    (ytf.work / "data" / "x").write_text("staged")
    program = """
if [ $YTF_ATTEMPT = 2 ]; then mkdir out; cat data/x checkpoints/model >out/both; exit 0; fi
mkdir -p checkpoints; printf " synced" >checkpoints/model
until [ -e "$GATE/go" ]; do sleep 0.05; done
printf torn >checkpoints/model; exit 1
"""
    job = submit(
        program,
        *("--stage_in", str(ytf.work / "data"), "--stage_out", f"out:{ytf.work}/kept"),
        *("--sync_checkpoints", f"checkpoints:{ytf.work}/run10", "--on_failure", "restart-task"),
    )
    eventually((ytf.work / "run10" / "model").exists, 60, "the checkpoint to be synced")
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert (ytf.work / "kept" / "both").read_text() == "staged synced"


def test_failure(submit: Submit) -> None:
    status = submit("echo what went wrong >&2; exit 7").end("FAILED")
    assert task(status, "worker:0").exit_code == 7
    assert "what went wrong" in status.diagnostics


def test_kill_gives_time_to_save(ytf: Ytf, submit: Submit) -> None:
    saver = 'sh -c \'trap "echo saved >$GATE/saved; exit 0" TERM; ' + HERE + FOREVER + "'"
    job = submit(f"{saver}; echo its shell is dead by then")
    job.wait_running("worker:0")
    # One that its starter has not seen running yet is removed without a warning.
    eventually(lambda: states(job.status()) == {"worker:0": "RUNNING"}, describe="it runs")
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")
    assert (ytf.gate / "saved").exists()


def test_restart_in_the_same_container(ytf: Ytf, submit: Submit) -> None:
    job = submit(
        HERE + '[ "$YTF_ATTEMPT" = 2 ] || exit 3; ' + HOLD,
        *("--on_failure", "restart-task"),
    )
    job.wait_running("worker:0", attempt=2)
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert task(status, "worker:0").attempt == 2


def test_a_killed_starter_takes_its_container_along(
    ytf: Ytf, submit: Submit, engine: Engine
) -> None:
    job = submit(HERE + FOREVER)
    job.wait_running("worker:0")
    assert len(engine.containers()) == 1
    kill(job.starter("worker:0"))
    job.end("FAILED")
    engine.wait_empty()


def test_a_killed_starter_and_reaper_do_not_matter_either(
    ytf: Ytf, submit: Submit, engine: Engine
) -> None:
    job = submit(HERE + FOREVER)
    job.wait_running("worker:0")
    starter = job.starter("worker:0")
    reaper = next(p.pid for p in ytf.processes() if p.parent == starter and p.is_starter)
    stop(starter, reaper)
    kill(starter, reaper)
    job.end("FAILED")
    wait_dead(starter, reaper)
    # The next starter on the node removes what nobody could.
    submit("true").end("SUCCEEDED")
    engine.wait_empty()


def test_signals(ytf: Ytf, submit: Submit) -> None:
    job = submit("trap 'touch $GATE/got; exit 0' USR1; " + HERE + FOREVER)
    job.wait_running("worker:0")
    eventually(lambda: states(job.status()) == {"worker:0": "RUNNING"}, describe="it runs")
    # A starter passes on what it gets itself.
    kill(job.starter("worker:0"), signum=signal.SIGUSR1)
    ytf.told("got")
    job.end("SUCCEEDED")


def test_a_missing_image(submit: Submit) -> None:
    job = submit("true", "--docker_image", "localhost/nope:7")
    status = job.end("FAILED")
    assert "the image localhost/nope:7 is not on this node" in status.diagnostics
    assert "check its name" in status.diagnostics
    launched = [e for e in job.events() if e.event == "container_launched"]
    assert len(launched) <= 4
    assert any("pulling the image localhost/nope:7" in line for line in job.logs("worker:0"))


def test_a_missing_engine(submit: Submit) -> None:
    status = submit("true", "--docker_engine", "/no/such/engine").end("FAILED")
    assert "this node has no container engine" in status.diagnostics
    assert "there is no /no/such/engine" in status.diagnostics


def test_one_group_in_an_image_and_one_without(ytf: Ytf, engine: Engine) -> None:
    ytf.env.update(engine.settings)
    job = ytf.submit_spec(
        docker_image=engines.IMAGE,
        docker={"engine": "podman"},
        command='echo "$container."',
        groups={"worker": {"count": 1}, "ps": {"count": 1, "docker_image": "", "tracked": True}},
    )
    job.end("SUCCEEDED")
    assert lines_of(job, "worker") == ["podman."]
    assert lines_of(job, "ps") == ["."]
    engine.wait_empty()


def test_each_container_has_its_own_gpus(ytf: Ytf, submit: Submit) -> None:
    """There are none: an ``nvidia-smi`` shows two, and the client's words are noted."""
    folder = ytf.work / "bin"
    folder.mkdir()
    smi, client, noted = folder / "nvidia-smi", folder / "podman", ytf.work / "noted"
    smi.write_text(
        "#!/bin/sh\n[ \"${1%%=*}\" != --query-gpu ] || printf '0, GPU-a\\n1, GPU-b\\n'\n"
    )
    client.write_text(
        f"""#!/bin/bash
for word; do
    shift
    case $word in --device=*) echo "$word" >>{noted} ;; *) set -- "$@" "$word" ;; esac
done
exec {shutil.which("podman")} "$@"
"""
    )
    for each in (smi, client):
        each.chmod(0o755)
    ytf.env["PATH"] = f"{folder}:{ytf.env['PATH']}"
    ytf.env.pop("CUDA_VISIBLE_DEVICES", None)
    job = submit(
        'echo "sees ${CUDA_VISIBLE_DEVICES-all} ${NVIDIA_VISIBLE_DEVICES-all}"; ' + HERE + HOLD,
        *("--docker_engine", str(client), "--task_gpus", "worker:1"),
        requirement="ps:1,worker:2",
    )
    job.wait_running("ps:0", "worker:0", "worker:1")
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert lines_of(job, "ps:0") == ["sees  void"]
    assert lines_of(job, "worker:0") == lines_of(job, "worker:1") == ["sees 0 void"]
    words = sorted(noted.read_text().splitlines())
    assert words == ["--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=1"]


def test_a_container_that_uses_too_much_memory(submit: Submit) -> None:
    status = submit("tail /dev/zero", "-m", "128").end("FAILED")
    assert "memory" in status.diagnostics


def test_what_a_program_in_an_image_uses(ytf: Ytf, submit: Submit) -> None:
    job = submit(HERE + "while [ ! -e $GATE/go ]; do :; done")
    job.wait_running("worker:0")
    usage_when(job, "worker:0", lambda used: used.cpu_s > 0 and used.memory_bytes > 0)
    ytf.open_gate()
    used = task(job.end("SUCCEEDED"), "worker:0").usage
    assert used is not None
    assert used.cpu_s > 0


def test_only_this_machine_reaches_programs_in_containers(ytf: Ytf, submit: Submit) -> None:
    """As with native programs: podman's containers are descendants of the node."""
    serve = 'while :; do echo hello | nc -l -p "$YTF_TASK_PORT"; done & '
    with other_machine() as outsider:
        job = submit(serve + HERE + FOREVER)
        job.wait_running("worker:0")
        port = task(job.status(), "worker:0").port or 0
        eventually(lambda: port in listening_ports(), describe="the program listens")
        assert outsider.connect(outsider.ipv4, port).startswith("no connection")
        with socket.create_connection(("127.0.0.1", port), 60) as sock:
            assert sock.recv(100) == b"hello\n"
        assert "warning" not in ytf.run("ytf", "status", job.id).stdout
        ytf.run("ytf", "kill", job.id)
        job.end("KILLED")
