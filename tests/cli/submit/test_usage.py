"""Every way to get ``ytf-submit`` wrong: exit 2, one clear message, nothing on stdout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Install
from ytf.cli.submit import command
from ytf.client import local_checks
from ytf.specs.job import DockerRuntime

R = ["-r", "ps:1,worker:2"]
CASES: list[tuple[list[str], str, str]] = [
    ([], "-r is missing", "for example -r ps:1,worker:2"),
    (["true"], "-r is missing", "for example"),
    (R, "the task command is missing", "quoted"),
    ([*R, ""], "the task command is empty", ""),
    ([*R, "  "], "the task command is empty", ""),
    ([*R, "python", "train.py"], "got 2 words: python train.py", "quote the command"),
    (
        [*R, "python", "train.py", "--lr", "1"],
        "got 4 words: python train.py --lr 1",
        "quote the command",
    ),
    (["python", *R, "train.py"], "got 2 words: python train.py", "quote the command"),
    ([*R, "--task_vcore", "2", "true"], "--task_vcore", "did you mean '--task_vcores'?"),
    ([*R, "--tensorbord", "true"], "--tensorbord", "did you mean '--tensorboard'?"),
    ([*R, "--zzz", "true"], "--zzz", "see ytf-submit --help"),
    ([*R, "--queue"], "expected one argument", ""),
    ([*R, "-t=1", "true"], "-t/--tensorboard", ""),
    (["-r", "worker", "true"], "expected <group>:<number>", "ps:1,worker:4"),
    (["-r", "worker:0", "true"], "must be 1 to", ""),
    (["-r", "worker:-1", "true"], "must be 1 to", ""),
    (["-r", "worker:1,worker:2", "true"], "duplicate", ""),
    (["-r", "client:1", "true"], "reserved", "--client"),
    ([*R, "-m", "0", "true"], "memory must be more than 0", ""),
    ([*R, "-m", "2 parsec", "true"], "is not a unit of memory", ""),
    ([*R, "-m", "wroker:5", "true"], "no task group 'wroker'", "did you mean 'worker'?"),
    ([*R, "-m", "worker[2]:5", "true"], "an index in worker must be 0 to 1", ""),
    ([*R, "-c", "0", "true"], "the number of vcores must be 1", ""),
    ([*R, "-c", "1", "-c", "2", "true"], "duplicate", ""),
    ([*R, "--task_gpus", "x", "true"], "is not a whole number", ""),
    ([*R, "-t", "true"], "-o: TensorBoard needs to know", "-o"),
    (["-r", "worker:1,", "true"], "-r 'worker:1,': there is nothing on one side", "ps:1,worker:4"),
    ([*R, "-m", "1,", "true"], "-m '1,': there is nothing on one side of a comma", ""),
    ([*R, "-s", "no.py", "true"], "-s: there is no file 'no.py'", ""),
    ([*R, "-s", "here", "-s", "there", "true"], "-s/--script: is given twice", ""),
    ([*R, "-r", "chief:1", "true"], "-r/--cluster_requirement: is given twice", ""),
    ([*R, "python $DTF_TASK_SCRIPT"], "the task command: the command uses $DTF_TASK_", "-s FILE"),
    ([*R, "--files", "no.txt", "true"], "--files no.txt: there is no file 'no.txt'", ""),
    ([*R, "--files", "x=", "true"], "an empty path", ""),
    ([*R, "--files", "n=here,n=there", "true"], "two files would be called 'n'", "<name>=<path>"),
    ([*R, "--env", "nowhere", "true"], "is not an environment", "venv or conda"),
    ([*R, "--registry", "zoo", "true"], "there is no registry 'zoo'", "zk://host:port"),
    ([*R, "--registry", "zk://a b:1", "true"], "not the address of a ZooKeeper", "zk://host:port"),
    ([*R, "--registry", "zk", "true"], "no ZooKeeper is named", "--registry zk://"),
    ([*R, "--framework", "tensorflw", "true"], "there is no framework", "'tensorflow'?"),
    ([*R, "--backend", "slurm", "true"], "there is no backend 'slurm'", "local, yarn"),
    ([*R, "--on_failure", "restart", "true"], "there is no policy 'restart'", "did you mean"),
    ([*R, "--on_failure", "wrk:ignore", "true"], "no task group 'wrk'", ""),
    (
        [*R, "--on_failure", "ignore", "--on_failure", "fail-job", "true"],
        "duplicate: every group",
        "",
    ),
    ([*R, "--task_resources", "fpga", "true"], "expected <name>=<number>", "yarn.io/fpga=1"),
    ([*R, "--task_resources", "vcores=1", "true"], "has a field of its own", "give it as vcores"),
    ([*R, "--processes", "0", "true"], "the number of processes must be", ""),
    ([*R, "--processes", "wrk:2", "true"], "no task group 'wrk'", ""),
    ([*R, "--processes", "2", "true"], "a tensorflow task is one process, not 2", "--framework"),
    ([*R, "--placement", "up", "true"], "there is no placement 'up'", "'spread'"),
    ([*R, "--placement", "wrk:spread", "true"], "no task group 'wrk'", ""),
    ([*R, "--placement", "any", "--placement", "pack", "true"], "duplicate: every group", ""),
    ([*R, "--node_label", "a b", "true"], "--node_label: 'a b' cannot be a node's label", ""),
    ([*R, "--node_label", "a", "--node_label", "b", "true"], "duplicate: every group", ""),
    ([*R, "--node_label", "wrk:a", "true"], "no task group 'wrk'", ""),
    ([*R, "--task_ports", "many", "true"], "--task_ports: 'many' is not a range", "30000-30999"),
    ([*R, "--task_ports", "30000", "true"], "'30000' is not a range of ports", "30000-30999"),
    ([*R, "--control_ports", "9-3", "true"], "ports are 1024 to 65535, not 9-3", "30000-30999"),
    ([*R, "--control_ports", "4000-3000", "true"], "ends before it begins", "30000-30999"),
    ([*R, "--control_ports", "4000-70000", "true"], "ports are 1024 to 65535", "30000-30999"),
    ([*R, "--priority", "high", "true"], "--priority: priority must be a whole number from 0", ""),
    ([*R, "--tags", "a,,b", "true"], "--tags: '' cannot be a tag", "ASCII"),
    ([*R, "--acl_view", "a b c", "true"], "--acl_view: 'a b c' is not understood", "users, then"),
    ([*R, "--lifetime", "soon", "true"], "'soon' is not a time", "1h30m"),
    ([*R, "--master_memory", "2 parsec", "true"], "is not a unit of memory", ""),
    ([*R, "--master_vcores", "0", "true"], "the number of vcores must be a whole number", ""),
    ([*R, "--max_master_attempts", "x", "true"], "the number of attempts must be", ""),
    ([*R, "--max_restarts", "-1", "true"], "is not a number of restarts", ""),
    ([*R, "--max_restarts", "many", "true"], "is not a number of restarts", ""),
    ([*R, "--untracked", "wroker", "true"], "there is no task group 'wroker'", "worker"),
    (
        ["-r", "worker:1", "--untracked", "worker", "true"],
        "--untracked worker: no group is left",
        "leave out the group",
    ),
    ([*R, "--timeout", "0", "true"], "--timeout: a limit of no time", "leave it out"),
    ([*R, "--logs", "true"], "--logs goes with --wait only", "ytf logs -f @last"),
    ([*R, "--logs", "--wait", "--client", "true"], "--logs and a client exclude", "ytf logs -f"),
    ([*R, "--timeout", "soon", "true"], "--timeout: 'soon' is not a time", "1h30m"),
    ([*R, "--lifetime", "1 hor", "true"], "'hor' is not a unit of time", "did you mean 'hour'?"),
    ([*R, "--task_env", "SEED", "true"], "is not NAME=VALUE", ""),
    ([*R, "--task_env", "1A=b", "true"], "'1A' cannot be the name of a variable", "no digit"),
    ([*R, "--task_env", "A=", "--task_env", "A=1", "true"], "duplicate: A has a value", ""),
    ([*R, "--task_env", "DTF_X=1", "true"], "--task_env DTF_X: ytf sets this variable itself", ""),
    ([*R, "-n", "", "true"], "-n: must not be empty", ""),
    ([*R, "-q", "", "true"], "-q: must not be empty", ""),
    ([*R, "--env", "", "true"], "--env: must not be empty", ""),
    ([*R, "--json", "true"], "--json goes with --dryrun only", "ytf status"),
    ([*R, "--client_command", "x", "true"], "--client_command needs --client", ""),
    ([*R, "--servers", "true"], "there is no client", "ytf attach"),
    ([*R, "--servers", "--client"], "the client has no command", ""),
    ([*R, "-n", "two\nlines", "true"], "control characters", ""),
]


@pytest.mark.parametrize(("words", "message", "hint"), CASES, ids=[" ".join(c[0]) for c in CASES])
def test_it_is_said_once_and_clearly(
    words: list[str],
    message: str,
    hint: str,
    install: Install,
    capfd: pytest.CaptureFixture[str],
) -> None:
    backend = install()
    for name in ("here", "there"):
        Path(name).touch()
    assert command.main(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if ": backend " not in line]
    assert lines[0].startswith("ytf-submit: error: ")
    assert message in lines[0]
    assert len(lines) <= 2
    assert hint in "".join(lines[1:])
    assert "usage:" not in err
    assert backend.submitted == []


WRONG_SETTINGS = [
    ("task_memory", '"abc"', "task_memory (from {}) 'abc': 'abc' is not an amount of memory"),
    ("task_vcores", "-1", "task_vcores (from {}) '-1': the number of vcores must be 1 to"),
    ("name", '"a\\nb"', "name (from {}): has control characters"),
    ("env", '"no"', "env (from {}): "),
    ("priority", '"high"', "{}: priority must be a whole number from 0 to"),
    ("tags", '"größe"', "tags (from {}): 'größe' cannot be a tag"),
    ("node_label", '"a b"', "node_label (from {}): 'a b' cannot be a node's label"),
    ("task_ports", '"a-b"', "task_ports (from {}): 'a-b' is not a range of ports"),
    ("framework", '"x"', "{}: there is no framework 'x'"),
]


@pytest.mark.parametrize(("key", "value", "message"), WRONG_SETTINGS)
@pytest.mark.parametrize("by_file", [True, False])
def test_a_wrong_setting_is_told_by_who_gave_it(
    key: str,
    value: str,
    message: str,
    by_file: bool,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    install()
    if by_file:
        source = str(Path(os.environ["YTF_HOME"], "ytf.toml"))
        Path(source).write_text(f"{key} = {value}\n")
    else:
        source = f"the variable YTF_{key.upper()}"
        monkeypatch.setenv(f"YTF_{key.upper()}", value.strip('"').replace("\\n", "\n"))
    assert command.main([*R, "true"]) == 2
    assert f"ytf-submit: error: {message.format(source)}" in capfd.readouterr().err


def test_docker_options(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    backend = install()
    options = ("--docker_image", "tf:1", "--docker_engine", "podman", "--docker_runtime", "starter")
    assert command.main([*R, *options, "true"]) == 0
    spec = backend.submitted[0].spec
    assert (spec.docker_image, spec.docker.engine) == ("tf:1", "podman")
    assert spec.docker.runtime is DockerRuntime.STARTER
    capfd.readouterr()
    for wrong, says in (
        (("--docker_image", "a b"), "--docker_image"),
        (("--docker_engine", "x/y"), "--docker_engine"),
        (("--docker_runtime", "kubernetes"), "--docker_runtime"),
    ):
        assert command.main([*R, *wrong, "true"]) == 2
        assert says in capfd.readouterr().err


def test_gpus_that_this_machine_lacks_are_refused_before_submission(
    install: Install, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_checks, "list_gpus", lambda path, visible: [])
    backend = install()
    assert command.main([*R, "--task_gpus", "1", "true"]) == 1
    assert "and this machine has none" in capfd.readouterr().err
    assert backend.submitted == []
