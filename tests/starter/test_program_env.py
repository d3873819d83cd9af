from __future__ import annotations

import json

import pytest

from tests.starter.configs import make_config
from ytf.frameworks.api import TaskContext
from ytf.frameworks.tensorflow import tf_config
from ytf.starter.program_env import LONGEST, container_environment, program_environment

MEMBERS = {
    "chief": ["a:1"],
    "worker": ["b:2", "b:3"],
    "ps": ["c:4"],
    "evaluator": ["d:5"],
    "tensorboard": ["e:6"],
    "client": ["f:7"],
}
TRAINING = {"chief": ["a:1"], "worker": ["b:2", "b:3"], "ps": ["c:4"]}


def made(
    members: dict[str, list[str]] = MEMBERS,
    inherited: dict[bytes, bytes] | None = None,
    *,
    port: int | None = 4000,
    held: bool = True,
    **settings: object,
) -> dict[str, str]:
    config = make_config(**settings)
    task = TaskContext(
        job=config.job,
        container=config.container,
        group=config.group,
        index=config.index,
        attempt=2,
        generation=1,
        host="node",
        port=port,
        port_is_held=held,
    )
    files = {"YTF_CLUSTER_SPEC_FILE": "/some dir/ä.json"}
    result = program_environment(inherited or {}, config.framework, task, members, files)
    return {name.decode(): value.decode() for name, value in result.items()}


@pytest.mark.parametrize(
    ("group", "index"), [("chief", 0), ("worker", 1), ("ps", 0), ("evaluator", 0), ("client", 0)]
)
def test_tf_config_names_those_who_train_and_the_task_itself(group: str, index: int) -> None:
    config = json.loads(made(group=group, index=index)["TF_CONFIG"])
    assert config == {"cluster": TRAINING, "task": {"type": group, "index": index}}


def test_hosts_of_every_group_but_tensorboard_and_client() -> None:
    variables = made()
    lists = {name: value for name, value in variables.items() if name.startswith("DTF_")}
    assert {name: value for name, value in lists.items() if name.endswith("_HOSTS")} == {
        "DTF_CHIEF_HOSTS": "a:1",
        "DTF_WORKER_HOSTS": "b:2,b:3",
        "DTF_PS_HOSTS": "c:4",
        "DTF_EVALUATOR_HOSTS": "d:5",
    }


def test_a_mixed_case_group_is_upper_case_in_its_variable_only() -> None:
    variables = made({"myGroup": ["a:1"]})
    assert variables["DTF_MYGROUP_HOSTS"] == "a:1"
    assert json.loads(variables["TF_CONFIG"])["cluster"] == {"myGroup": ["a:1"]}


def test_who_the_task_is() -> None:
    variables = made(group="worker", index=1)
    assert variables["DTF_TASK_JOB_NAME"] == "worker"
    assert variables["DTF_TASK_INDEX"] == "1"
    assert variables["YTF_TASK"] == "worker:1"
    assert variables["YTF_JOB_ID"] == "local_1"
    assert variables["YTF_CONTAINER_ID"] == "c1"
    assert variables["YTF_ATTEMPT"] == "2"
    assert variables["YTF_GENERATION"] == "1"
    assert variables["YTF_TASK_HOST"] == "node"
    assert variables["YTF_TASK_PORT"] == "4000"
    assert variables["YTF_CLUSTER_SPEC_FILE"] == "/some dir/ä.json"


def test_only_a_held_port_asks_tensorflow_to_share_it() -> None:
    assert made(held=True)["TF_GRPC_REUSE_PORT"] == "1"
    assert "TF_GRPC_REUSE_PORT" not in made(held=False)


def test_no_port_no_variable() -> None:
    assert "YTF_TASK_PORT" not in made(port=None, held=False)


def test_other_frameworks_get_no_tf_config_but_keep_the_users() -> None:
    assert "TF_CONFIG" not in made(framework="none")
    assert made(inherited={b"TF_CONFIG": b"mine"}, framework="none")["TF_CONFIG"] == "mine"
    assert made(inherited={b"TF_CONFIG": b"mine"})["TF_CONFIG"] != "mine"
    assert "DTF_WORKER_HOSTS" in made(framework="none")


def test_the_containers_environment_passes_but_for_our_own_settings() -> None:
    variables = made(inherited={b"HOME": b"/home/me", b"YTF_STARTER": b"{}", b"EMPTY": b""})
    assert variables["HOME"] == "/home/me"
    assert variables["EMPTY"] == ""
    assert "YTF_STARTER" not in variables


def test_what_is_too_long_for_linux_is_left_out_even_if_inherited() -> None:
    hosts = [f"node-{i:05}.example.com:12345" for i in range(5000)]
    variables = made({"worker": hosts, "ps": ["p:1"]}, {b"DTF_WORKER_HOSTS": b"stale"})
    assert "DTF_WORKER_HOSTS" not in variables
    assert "TF_CONFIG" not in variables
    assert variables["DTF_PS_HOSTS"] == "p:1"


@pytest.mark.parametrize(("extra", "present"), [(0, True), (1, False)])
def test_the_limit_counts_name_equals_sign_and_final_zero(extra: int, present: bool) -> None:
    host = "h" * (LONGEST - len("DTF_X_HOSTS=") - 1 + extra)
    assert ("DTF_X_HOSTS" in made({"x": [host]})) is present


def test_unicode_survives() -> None:
    assert made({"worker": ["knöten:1"]})["DTF_WORKER_HOSTS"] == "knöten:1"
    assert json.loads(tf_config("worker", 0, {"worker": ["knöten:1"]}))["cluster"] == {
        "worker": ["knöten:1"]
    }


def test_the_containers_environment_is_read_as_bytes() -> None:
    assert container_environment()[b"PATH"]
