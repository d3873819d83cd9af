"""The launch contexts of masters and starters."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.staged_jobs import CREDENTIALS, FILES, RESOURCES
from ytf.backends.api import StarterLaunch
from ytf.backends.yarn.launch_contexts import LaunchContexts, StarterResources
from ytf.hadoop.security.credentials import MASTER_TOKEN
from ytf.hadoop.yarn.contexts import ContainerLaunchContext
from ytf.specs.ids import ContainerId, TaskId


def contexts(*, secure: bool = False) -> LaunchContexts:
    return LaunchContexts(user="alice", secure=secure, credentials=CREDENTIALS)


def test_a_starter_gets_everything_in_one_variable_and_no_master_token() -> None:
    launch = StarterLaunch(
        container=ContainerId("container_1_0001_01_000002"),
        task=TaskId("my_group:3"),
        env={"DTF_TASK_PROGRAM": 'echo "$HOME" `id` \\ \n <LOG_DIR> {{X}}'},
        defaults={"OMP_NUM_THREADS": "2"},
        starter={"attempt": 1},
        memory_mb=128,
    )
    context = contexts().starter(launch, RESOURCES)
    context.to_message()
    assert list(context.environment) == ["YTF_LAUNCH", "YTF_SCRIPT"]
    assert base64.b64decode(context.environment["YTF_SCRIPT"]) == b'exec "$it"\n'
    told = json.loads(base64.b64decode(context.environment["YTF_LAUNCH"]))
    assert told["env"] == launch.env
    assert told["defaults"] == {"HADOOP_USER_NAME": "alice", "OMP_NUM_THREADS": "2"}
    assert told["starter"] == {
        "attempt": 1,
        "log_prefix": "my_group-3",
        "hadoop_conf": ".ytf/conf",
    }
    assert context.local_resources == FILES
    assert context.credentials == CREDENTIALS.without_kind(MASTER_TOKEN)
    assert context.credentials.tokens.keys() == {"hdfs"}
    assert b"s3cr3t" not in context.environment["YTF_LAUNCH"].encode()


def test_a_group_brings_its_own_environment() -> None:
    launch = StarterLaunch(
        container=ContainerId("c"), task=TaskId("board:0"), env={}, defaults={}, starter={},
        memory_mb=1,
    )  # fmt: skip
    context = contexts().starter(launch, RESOURCES)
    assert context.local_resources.keys() == {"ytf_layer_1", "ytf_layer_2"}
    told = json.loads(base64.b64decode(context.environment["YTF_LAUNCH"]))
    wanted = {"manifest": "ytf_environment_1.json", "layers": ["ytf_layer_2"]}
    assert told["starter"]["environment"] == wanted


def _run_as_a_node_does(context: ContainerLaunchContext, folder: Path) -> str:
    """What the master would print: NodeManagers write just such a script."""
    variables = "".join(f'export {n}="{v}"\n' for n, v in context.environment.items())
    command = context.command.replace("<LOG_DIR>", str(folder))
    (folder / ".ytf").mkdir()
    (folder / "launch.sh").write_text(f'{variables}exec /bin/bash -c "{command}"\n')
    subprocess.run(["bash", "launch.sh"], cwd=folder, env={"PATH": os.defpath}, check=True)
    return (folder / "stdout").read_text()


@pytest.mark.parametrize("user", ["alice", "it's me", '"', "$HOME `id` \\", "{{X}} <LOG_DIR>"])
def test_a_master_is_told_where_its_job_is_staged(tmp_path: Path, user: str) -> None:
    script = 'printf "%s\n" "$HADOOP_USER_NAME" "$@"\n'
    staging = f"hdfs://nn:1/user/{user}/.ytf/jobs/a"
    made = LaunchContexts(user=user, secure=False, credentials=CREDENTIALS).master(
        staging, script, FILES
    )
    made.to_message()
    words = [user, "--backend", "yarn", "--staging", staging]
    assert _run_as_a_node_does(made, tmp_path).splitlines() == words


def test_where_names_are_not_believed_none_is_told(tmp_path: Path) -> None:
    secure = contexts(secure=True).master("hdfs://nn/x", "env\n", FILES)
    assert "HADOOP_USER_NAME" not in _run_as_a_node_does(secure, tmp_path)


def docker_launch(**given: object) -> StarterLaunch:
    usual = StarterLaunch(
        container=ContainerId("c"), task=TaskId("worker:0"), env={}, defaults={}, starter={},
        memory_mb=1,
    )  # fmt: skip
    return msgspec.structs.replace(usual, **given)


def test_an_image_that_the_starter_runs() -> None:
    launch = docker_launch(
        docker={"image": "tf:1", "variables": ["X"]},
        env={"X": "1"},
        defaults={"OMP_NUM_THREADS": "2"},
    )
    context = contexts().starter(launch, RESOURCES)
    assert list(context.environment) == ["YTF_LAUNCH", "YTF_SCRIPT"]
    told = json.loads(base64.b64decode(context.environment["YTF_LAUNCH"]))
    assert told["starter"]["docker"] == {
        "image": "tf:1",
        "variables": ["HADOOP_USER_NAME", "OMP_NUM_THREADS", "X"],
    }


def test_an_image_that_yarn_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of YARN's docker runtime, as ``DockerLinuxContainerRuntime`` reads them."""
    for name in ("HADOOP_HOME", "HADOOP_CONF_DIR", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    conf = tmp_path / "conf"
    conf.mkdir()
    odd = tmp_path / "with space"
    odd.mkdir()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    monkeypatch.setenv("HADOOP_HOME", str(odd))
    monkeypatch.setenv("JAVA_HOME", "/not/there")
    launch = docker_launch(
        yarn_image="host:5000/tf:1",
        env={"DTF_INPUT_PATH": "hdfs:///in", "DTF_OUTPUT_PATH": "/data/out"},
    )
    context = contexts().starter(launch, RESOURCES)
    context.to_message()
    runtime = {k: v for k, v in context.environment.items() if not k.startswith("YTF_")}
    assert runtime == {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": "host:5000/tf:1",
        "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": "host",
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": f"/data/out:/data/out:rw,{conf}:{conf}:ro",
    }
    told = json.loads(base64.b64decode(context.environment["YTF_LAUNCH"]))
    assert "docker" not in told["starter"]


def test_the_master_never_runs_in_an_image() -> None:
    context = contexts().master("hdfs:///staging", "exit\n", FILES)
    assert list(context.environment) == ["YTF_SCRIPT"]


def test_the_plugin_for_hdfs_is_for_the_programs_that_want_it() -> None:
    resources = msgspec.structs.replace(RESOURCES, hdfs_plugin=".ytf/layers/1/tensorflow-plugins")

    def told(launch: StarterLaunch, given: StarterResources) -> dict[str, object]:
        context = contexts().starter(launch, given)
        starter: dict[str, object] = json.loads(
            base64.b64decode(context.environment["YTF_LAUNCH"])
        )["starter"]
        return starter

    with_it = docker_launch(hdfs_plugin=True)
    assert told(with_it, resources)["hdfs_plugin"] == ".ytf/layers/1/tensorflow-plugins"
    assert "hdfs_plugin" not in told(docker_launch(), resources)
    assert "hdfs_plugin" not in told(with_it, RESOURCES)
    assert told(with_it, resources)["hadoop_conf"] == ".ytf/conf"
