"""The command line of the engine's client, word by word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ytf.starter.engine import DOCKER, LABEL, NODE_AND_USER_LABEL, PODMAN, Engine
from ytf.starter.engine_container import (
    SHELL,
    Mount,
    TaskContainer,
    container_name,
    find_mounts,
    gpu_variables,
    libhdfs_folders,
    local_path,
    program_variables,
    run_arguments,
    run_environment,
    yarn_cgroup,
)
from ytf.starter.gpus import AMD, NVIDIA, Gpu, TakenGpus
from ytf.starter.runner import NotReadyError

NODE = {b"PATH": b"/node/bin", b"DOCKER_HOST": b"unix:///engine"}
CORES = os.cpu_count() or 1


def engine(kind: str = DOCKER, **given: bool) -> Engine:
    return Engine(f"/usr/bin/{kind}", kind, NODE, **given)


def task(**given: object) -> TaskContainer:
    values: dict[str, object] = {
        "name": "ytf-c1-1",
        "image": "tf:1",
        "command": "python train.py",
        "env": {b"DTF_TASK_INDEX": b"0"},
        "workdir": "/node/c 1",
        "mounts": [Mount("/data", True)],
        "mark": "1.2.3",
        "node_and_user": "boot.1000",
        "memory_mb": 2048,
        "vcores": 1,
        "uid": 1000,
        "gid": 100,
        "groups": [100, 27],
        **given,
    }
    return TaskContainer(**values)  # type: ignore[arg-type]


def test_all_words() -> None:
    words = run_arguments(engine(), task())
    if os.path.exists("/sys/fs/selinux/enforce"):
        words.remove("--security-opt=label=disable")
    assert words[:-1] == [
        *("run", "--name", "ytf-c1-1", "--label", f"{LABEL}=1.2.3"),
        *("--label", f"{NODE_AND_USER_LABEL}=boot.1000"),
        *("--init", "--sig-proxy=false", "--pull=never", "--log-driver=none"),
        *("--network=host", "--ipc=host", "--pids-limit=-1", "--security-opt=no-new-privileges"),
        *("--memory=2048m", "--cpus=1", "--workdir", "/node/c 1", "--entrypoint=sh"),
        *("--user=1000:100", "--group-add=27"),
        *("--volume", "/node/c 1:/node/c 1", "--volume", "/data:/data:ro"),
        *("--env", "DTF_TASK_INDEX"),
        *("tf:1", "-c", SHELL, "ytf-task", "python train.py"),
    ]
    assert "2048 MB" in words[-1]


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (DOCKER, {}, ["--user=1000:100", "--group-add=27"]),
        (DOCKER, {"rootless": True}, ["--user=0:0"]),
        (DOCKER, {"remapped": True}, ["--user=1000:100", "--userns=host", "--group-add=27"]),
        (PODMAN, {}, ["--user=1000:100", "--group-add=27"]),
        (PODMAN, {"rootless": True}, ["--userns=keep-id", "--user=1000:100"]),
    ],
)
def test_files_belong_to_the_submitter(kind: str, given: dict[str, bool], words: list[str]) -> None:
    made = run_arguments(engine(kind, **given), task())
    assert [w for w in made if w.startswith(("--user", "--group-add"))] == words


def test_no_more_cores_than_the_node_has() -> None:
    assert f"--cpus={CORES}" in run_arguments(engine(), task(vcores=CORES + 1))


def test_cgroup_parent() -> None:
    asked = task(cgroup="/hadoop-yarn/c1")
    words = run_arguments(engine(cgroupfs=True), asked)
    assert words[words.index("--cgroup-parent") + 1] == "/hadoop-yarn/c1"
    # systemd knows no such path, and a user's engine may not use it.
    assert "--cgroup-parent" not in run_arguments(engine(), asked)
    assert "--cgroup-parent" not in run_arguments(engine(cgroupfs=True, rootless=True), asked)


@pytest.mark.parametrize(
    ("table", "parent"),
    [
        ("4:memory:/yarn/c1\n1:cpu,cpuacct:/yarn/c1\n0::/\n", "/yarn/c1"),
        ("9:pids:/yarn/c1\n4:memory:/\n0::/x.slice\n", None),
        ("0::/hadoop-yarn/c1\n", "/hadoop-yarn"),
        ("0::/system.slice/nodemanager.service\n", None),
    ],
)
def test_the_cgroup_that_yarn_made(table: str, parent: str | None) -> None:
    assert yarn_cgroup("c1", table) == parent


def test_variables_are_passed_by_name() -> None:
    env = {b"TOKEN": b"secret\nof two lines", b"TF_CONFIG": b"{}", b"PATH": b"/opt/bin"}
    words = run_arguments(engine(), task(env=env))
    given = [words[at + 1] for at, word in enumerate(words) if word == "--env"]
    # The engine's client reads PATH itself.
    assert given == ["PATH=/opt/bin", "TF_CONFIG", "TOKEN"]
    assert run_environment(engine(), task(env=env)) == {
        **NODE,
        b"TOKEN": b"secret\nof two lines",
        b"TF_CONFIG": b"{}",
    }


NVIDIAS = TakenGpus([Gpu(NVIDIA, 2, "GPU-a"), Gpu(NVIDIA, 3, "GPU-b")], [])
AMDS = TakenGpus([Gpu(AMD, 1, "AMD-7", "/dev/dri/renderD129")], [])
FROM_0 = {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("kind", "taken", "words", "inside"),
    [
        (DOCKER, NVIDIAS, ['--gpus="device=GPU-a,GPU-b"'], FROM_0),
        (
            PODMAN,
            NVIDIAS,
            ["--device=nvidia.com/gpu=2", "--device=nvidia.com/gpu=3"],
            {**FROM_0, "NVIDIA_VISIBLE_DEVICES": "void"},
        ),
        *(
            (
                kind,
                AMDS,
                ["--device=/dev/kfd", "--device=/dev/dri/renderD129"],
                {"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"},
            )
            for kind in (DOCKER, PODMAN)
        ),
    ],
)
def test_exactly_the_gpus_that_were_taken(
    kind: str, taken: TakenGpus, words: list[str], inside: dict[str, str]
) -> None:
    made = run_arguments(engine(kind), task(gpus=taken))
    assert [word for word in made if word.startswith(("--gpus", "--device"))] == words
    assert gpu_variables(engine(kind), taken) == inside


def test_no_gpus_but_those_that_were_taken() -> None:
    words = run_arguments(engine(), task(env={b"CUDA_VISIBLE_DEVICES": b"0"}))
    assert not [word for word in words if word.startswith(("--gpus", "--device"))]


def test_a_gpu_whose_device_file_is_not_known() -> None:
    with pytest.raises(NotReadyError, match="the device file of GPU AMD-9"):
        run_arguments(engine(), task(gpus=TakenGpus([Gpu(AMD, 0, "AMD-9")], [])))


def test_paths_that_a_client_misreads() -> None:
    words = run_arguments(engine(), task(mounts=[Mount("/a:b", True), Mount("/c,d", False)]))
    assert "type=bind,source=/a:b,target=/a:b,readonly" in words
    assert "/c,d:/c,d" in words
    with pytest.raises(NotReadyError, match="both a colon and a comma"):
        run_arguments(engine(), task(mounts=[Mount("/a:b,c", False)]))


def test_names_are_made_of_the_container_id() -> None:
    assert container_name("container_e1_2_0003_01_000004", "2") == (
        "ytf-container_e1_2_0003_01_000004-2"
    )
    assert container_name("client/ü 1", "1") == "ytf-client___1-1"


def test_the_mounts_of_the_seed(tmp_path: Path) -> None:
    for name in ("hadoop", "conf", "in", "usercache/me/filecache", "filecache"):
        (tmp_path / name).mkdir(parents=True)
    app = tmp_path / "usercache" / "me" / "appcache" / "app_1"
    (app / "filecache").mkdir(parents=True)
    node = {
        "HADOOP_HOME": f"{tmp_path}/hadoop",
        "HADOOP_CONF_DIR": f"{tmp_path}/conf",
        "JAVA_HOME": f"{tmp_path}/there is none",
        "LOCAL_DIRS": f"{app},/not/there",
    }
    env = {b"DTF_INPUT_PATH": os.fsencode(tmp_path / "in")}
    env[b"DTF_OUTPUT_PATH"] = os.fsencode(tmp_path / "out" / "new")
    given = {name.encode(): os.fsencode(path) for name, path in node.items()}
    found = {m.path: m.read_only for m in find_mounts(given, env, str(app / "c1"))}
    assert found == {
        str(tmp_path / "in"): False,
        str(tmp_path / "out/new"): False,
        str(tmp_path / "hadoop"): True,
        str(tmp_path / "conf"): True,
        str(app / "filecache"): True,
        str(tmp_path / "usercache/me/filecache"): True,
        str(tmp_path / "filecache"): True,
    }
    assert (tmp_path / "out" / "new").is_dir()


@pytest.mark.parametrize(
    ("env", "folders"),
    [
        ({}, []),
        (
            {b"HADOOP_HDFS_HOME": b"/opt/hadoop", b"JAVA_HOME": b"/opt/java"},
            ["/opt/hadoop", "/opt/java"],
        ),
        # Where a command in /usr/bin is no link: the image has a /usr of its own.
        ({b"HADOOP_HDFS_HOME": b"/usr/", b"JAVA_HOME": b"/usr/lib/jvm"}, ["/usr/lib/jvm"]),
    ],
)
def test_directories_for_libhdfs(env: dict[bytes, bytes], folders: list[str]) -> None:
    assert libhdfs_folders(env, ["OTHER"]) == folders
    assert libhdfs_folders(env, ["HADOOP_HDFS_HOME", "JAVA_HOME"]) == []


def test_an_output_path_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {b"DTF_OUTPUT_PATH": os.fsencode(tmp_path / "file" / "out")}
    with pytest.raises(NotReadyError, match="the output path"):
        find_mounts({}, env, "/work")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b"/data", "/data"),
        (b"file:///data", "/data"),
        (b"hdfs://nn/data", None),
        (b"s3://bucket", None),
        (b"data", None),
        (b"/", None),
        (b"", None),
    ],
)
def test_local_paths(value: bytes, path: str | None) -> None:
    assert local_path(value) == path


def test_what_a_program_inherits(tmp_path: Path) -> None:
    given = {
        b"PATH": b"/node/bin",
        b"LD_LIBRARY_PATH": b"/node/lib",
        b"HADOOP_CONF_DIR": os.fsencode(tmp_path),
        b"JAVA_HOME": b"/not/there",
        b"HADOOP_TOKEN_FILE_LOCATION": b"/node/tokens",
        b"SEED": b"7",
        b"DOCKER_HOST": b"unix:///engine",
    }
    assert program_variables(given, ["SEED"], "/work") == {
        b"HADOOP_CONF_DIR": os.fsencode(tmp_path),
        b"HADOOP_TOKEN_FILE_LOCATION": b"/node/tokens",
        b"SEED": b"7",
        b"HOME": b"/work",
    }
