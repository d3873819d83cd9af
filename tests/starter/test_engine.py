"""Finding an engine, and what users are told of one that does not serve them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from ytf.starter.engine import (
    DOCKER,
    PODMAN,
    Engine,
    EngineError,
    call_client,
    client_environment,
    find_engine,
)
from ytf.starter.orphans import STARTED_BY, own_mark, own_node_and_user


class Node:
    """A directory of clients that answer as a test wants; the PATH of a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {b"PATH": os.fsencode(folder) + b":/bin:/usr/bin"}

    def add(self, name: str, script: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


HAS_DOCKER = """case "$1" in
--version) echo "Docker version 28.2.2, build e6534b4";;
info) echo "cgroupfs [name=seccomp,profile=builtin]";;
*) exit 1;;
esac"""
NO_DAEMON = """case "$1" in
--version) echo "Docker version 28.2.2, build e6534b4";;
*) echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock." >&2; exit 1;;
esac"""
FORBIDDEN = """case "$1" in
--version) echo "Docker version 28.2.2, build e6534b4";;
*) echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1;;
esac"""
IS_PODMAN = 'echo "podman version 4.3.1"'


def test_docker_comes_first(node: Node) -> None:
    path = node.add("docker", HAS_DOCKER)
    node.add("podman", IS_PODMAN)
    found = find_engine(None, node.env)
    assert (found.client, found.kind, found.cgroupfs) == (path, DOCKER, True)
    assert not found.rootless
    assert not found.remapped


def test_podman_where_docker_does_not_answer(node: Node) -> None:
    node.add("docker", NO_DAEMON)
    path = node.add("podman", IS_PODMAN)
    found = find_engine(None, node.env)
    assert (found.client, found.kind) == (path, PODMAN)


def test_podman_under_the_name_of_docker(node: Node) -> None:
    node.add("docker", IS_PODMAN)
    assert find_engine("docker", node.env).kind == PODMAN


def test_the_kinds_of_docker(node: Node) -> None:
    node.add("docker", HAS_DOCKER.replace("name=seccomp", "name=rootless"))
    assert find_engine(None, node.env).rootless
    node.add("docker", HAS_DOCKER.replace("name=seccomp", "name=userns"))
    assert find_engine(None, node.env).remapped


def test_an_engine_that_was_asked_for_is_not_replaced(node: Node) -> None:
    node.add("docker", NO_DAEMON)
    node.add("podman", IS_PODMAN)
    with pytest.raises(EngineError, match="docker does not answer on this node: its daemon"):
        find_engine("docker", node.env)


def test_no_permission(node: Node) -> None:
    node.add("docker", FORBIDDEN)
    with pytest.raises(EngineError, match=r"user \d+ may not use docker.*group docker"):
        find_engine("docker", node.env)


def test_no_engine(node: Node) -> None:
    with pytest.raises(EngineError, match=r"there is no dokker; ask the administrator"):
        find_engine("dokker", node.env)
    with pytest.raises(EngineError, match=r"there is no relative/path"):
        find_engine("relative/path", node.env)


def test_a_program_that_is_no_engine(node: Node) -> None:
    path = node.add("mine", "echo oh no >&2; exit 3")
    with pytest.raises(EngineError, match="does not work: oh no"):
        find_engine(path, node.env)


def test_a_client_that_hangs_is_killed(node: Node) -> None:
    path = node.add("slow", "echo before; exec sleep 1000")
    answer = call_client([path], node.env, 0.2)
    assert answer.code == -1
    assert answer.output.startswith("before\n")
    assert "did not answer within" in answer.said


def test_a_pull_tells_its_progress(node: Node) -> None:
    path = node.add("docker", '[ "$1" = image ] && exit 1; printf "a\\rb\\n\\nc"; exit 0')
    told: list[str] = []
    Engine(path, DOCKER, node.env).ensure_image("tf:1", told.append)
    assert told[0] == "pulling the image tf:1 with docker"
    assert told[1:3] == ["a", "b"]
    assert told[-1] == "the image tf:1 is on this node now"


def test_an_image_that_is_there_is_not_pulled(node: Node) -> None:
    path = node.add("docker", '[ "$1" = image ]')
    told: list[str] = []
    Engine(path, DOCKER, node.env).ensure_image("tf:1", told.append)
    assert told == []


def test_a_container_that_is_gone_already_is_removed(node: Node) -> None:
    path = node.add("docker", 'echo "Error: No such container: x" >&2; exit 1')
    assert Engine(path, DOCKER, node.env).remove("x") == ""
    path = node.add("docker", 'echo "device is busy" >&2; exit 1')
    assert Engine(path, DOCKER, node.env).remove("x") == "device is busy"


NAMESPACE = own_mark().split(".")[0]
DEAD = f"{NAMESPACE}.{2**30}.1"


def engine_with(node: Node, **containers: tuple[str, str]) -> Engine:
    """An engine with containers; each has who started it, and on which node as which user."""
    as_json, plain = node.folder / "labels.json", node.folder / "labels"
    as_json.write_text(
        "".join(
            f"{name} {json.dumps([whose, mark])}\n" for name, (mark, whose) in containers.items()
        )
    )
    plain.write_text("".join(f"{name} {mark}\n" for name, (mark, _) in containers.items()))
    script = f"""case "$1 $*" in
ps*) echo {" ".join(containers)};;
inspect*json*) cat {as_json}; echo "Error: No such container: gone"; exit 1;;
inspect*) cat {plain};;
*) echo "$@" >>{node.folder}/calls;;
esac"""
    return Engine(node.add("docker", script), DOCKER, node.env)


def removed(node: Node) -> set[str]:
    calls = node.folder / "calls"
    words = [line.split() for line in calls.read_text().splitlines()] if calls.exists() else []
    assert [each for each in words if each[0] == "kill"] == [
        ["kill", each[2]] for each in words if each[0] == "rm"
    ]
    return {each[-1] for each in words}


def test_only_containers_of_dead_starters_are_removed(node: Node) -> None:
    ours = own_node_and_user()
    engine = engine_with(
        node, living=(own_mark(), ours), dead=(DEAD, ours), stranger=("1.2.3", ours)
    )
    engine.remove_orphans()
    assert removed(node) == {"dead"}


def test_containers_of_other_nodes_and_users_are_left_alone(node: Node) -> None:
    """An engine may serve several: every node's first PID namespace has the same number."""
    ours = own_node_and_user()
    boot, user = ours.split(".")
    engine = engine_with(
        node,
        elsewhere=(DEAD, f"00000000-0000-4000-8000-000000000000.{user}"),
        others=(DEAD, f"{boot}.{int(user) + 1}"),
        without=(DEAD, ""),
        dead=(DEAD, ours),
    )
    engine.remove_orphans()
    assert removed(node) == {"dead"}


def test_the_container_of_a_starter_that_is_hidden_is_left_alone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where /proc is mounted with hidepid, other users' processes cannot be seen."""

    def hidden(pid: int, signum: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    engine = engine_with(node, hidden=(DEAD, own_node_and_user()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", hidden)
        engine.remove_orphans()
    assert removed(node) == set()


def test_a_label_cannot_speak_for_another_container(node: Node) -> None:
    ours = own_node_and_user()
    forged = f"1.2.3\nvictim {DEAD}"
    engine = engine_with(node, evil=(forged, ours), victim=(own_mark(), ours))
    engine.remove_orphans()
    assert removed(node) == set()


def test_an_engine_that_fails_in_any_way_ends_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more_processes() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", no_more_processes)
    engine_with(node, any=(DEAD, own_node_and_user())).remove_orphans()


def test_the_clients_variables() -> None:
    container = {
        b"PATH": b"/task",
        b"DOCKER_HOST": b"unix:///node",
        b"YTF_STARTER": b"{}",
        b"DTF_TASK_INDEX": b"0",
        b"SEED": b"7",
    }
    made = client_environment(
        container,
        ["PATH", "SEED", "DTF_TASK_INDEX"],
        {"PATH": "/node"},
        {"CONTAINERS_CONF": "/etc/x"},
    )
    assert made == {
        b"PATH": b"/node",
        b"DOCKER_HOST": b"unix:///node",
        b"CONTAINERS_CONF": b"/etc/x",
        STARTED_BY.encode(): own_mark().encode(),
    }
