"""What a starter is told of its task."""

from __future__ import annotations

from ytf.backends.api import StarterLaunch
from ytf.backends.launch import make_starter_launch
from ytf.frameworks import tensorflow
from ytf.machine.commands import LaunchStarter
from ytf.specs.ids import ContainerId, JobId, NodeId, TaskId
from ytf.specs.job import DockerRuntime, DockerSpec, Framework, JobSpec, Resources, TaskGroupSpec


def launch(spec: JobSpec, task: str = "worker:1") -> tuple[dict[str, str], dict[str, object]]:
    command = LaunchStarter(
        container=ContainerId("c1"), task=TaskId(task), attempt=2, generation=3, node=NodeId("n")
    )
    made = make_starter_launch(spec, JobId("local_1"), "http://h:1", command, user="u")
    return made.env, dict(made.starter)


def test_the_seeds_variables_are_there_and_only_those_asked_for() -> None:
    env, _ = launch(JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="python $X 'a b'"))
    assert env == {
        "DTF_TASK_PROGRAM": "python $X 'a b'",
        "DTF_TASK_JOB_NAME": "worker",
        "DTF_TASK_INDEX": "1",
    }
    env, _ = launch(
        JobSpec(
            groups={"worker": TaskGroupSpec(count=2)},
            command="x",
            input="hdfs:///in",
            output="/out",
            script="train.py",
        )
    )
    assert env["DTF_INPUT_PATH"] == "hdfs:///in"
    assert env["DTF_OUTPUT_PATH"] == "/out"
    assert env["DTF_TASK_SCRIPT"] == "train.py"


def test_a_groups_own_command_and_variables_win() -> None:
    group = TaskGroupSpec(count=2, command="own", task_env={"A": "group"})
    env, _ = launch(
        JobSpec(groups={"worker": group}, command="all", task_env={"A": "job", "B": "job"})
    )
    assert (env["DTF_TASK_PROGRAM"], env["A"], env["B"]) == ("own", "group", "job")


def test_a_tasks_own_variables_win_over_its_groups() -> None:
    group = TaskGroupSpec(
        count=2, task_env={"A": "group", "B": "group"}, task_env_overrides={1: {"A": "own"}}
    )
    spec = JobSpec(groups={"worker": group}, command="x", task_env={"A": "job"})
    for task, expected in (("worker:0", "group"), ("worker:1", "own")):
        env, _ = launch(spec, task)
        assert (env["A"], env["B"]) == (expected, "group")


def test_the_starter_knows_who_it_is_and_how_to_treat_its_port() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="x")
    _, starter = launch(spec)
    assert (starter["container"], starter["attempt"], starter["generation"]) == ("c1", 2, 3)
    assert (starter["port"], starter["framework"]) == ("hold", "tensorflow")
    assert starter["registry"] == "rest"
    plain = JobSpec(groups=spec.groups, command="x", framework=Framework.NONE)
    assert launch(plain)[1]["port"] == "release"


def test_tensorboard_does_not_wait_for_the_others() -> None:
    spec = JobSpec(groups={"tensorboard": TaskGroupSpec(count=1, command="tb")}, command="x")
    assert launch(spec, "tensorboard:0")[1]["wait_for_peers"] is False


def test_with_servers_every_task_runs_the_stock_server() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, servers=True)
    assert launch(spec)[0]["DTF_TASK_PROGRAM"] == tensorflow.SERVER_COMMAND


def test_threads_follow_the_vcores_unless_the_user_says_otherwise() -> None:
    group = TaskGroupSpec(count=2, resources=Resources(vcores=3))
    command = LaunchStarter(
        container=ContainerId("c1"),
        task=TaskId("worker:0"),
        attempt=1,
        generation=1,
        node=NodeId("n"),
    )
    made = make_starter_launch(
        JobSpec(groups={"worker": group}, command="x"), JobId("j"), "http://h:1", command, user="u"
    )
    assert made.defaults["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in made.env


def ranked_job(framework: Framework) -> JobSpec:
    return JobSpec(
        groups={
            "worker": TaskGroupSpec(count=2, processes=2, resources=Resources(vcores=8, gpus=4)),
            "evaluator": TaskGroupSpec(count=1),
            "chief": TaskGroupSpec(count=1),
            "loader": TaskGroupSpec(count=1, framework=Framework.NONE),
        },
        command="x",
        framework=framework,
    )


def test_a_starter_knows_whose_processes_are_numbered_with_its_own() -> None:
    spec = ranked_job(Framework.PYTORCH)
    _, starter = launch(spec)
    assert (starter["processes"], starter["gpus"]) == (2, 4)
    assert starter["ranked"] == [("chief", 1), ("worker", 2)]
    assert launch(spec, "loader:0")[1]["ranked"] == [("loader", 1)]


def test_the_processes_of_a_task_share_its_cores() -> None:
    command = LaunchStarter(
        container=ContainerId("c"),
        task=TaskId("worker:0"),
        attempt=1,
        generation=1,
        node=NodeId("n"),
    )
    spec = ranked_job(Framework.PYTORCH)
    made = make_starter_launch(spec, JobId("j"), "http://h:1", command, user="u")
    assert made.defaults == {"OMP_NUM_THREADS": "4"}


def test_the_task_with_rank_0_serves_the_rendezvous_and_one_that_is_alone_its_own() -> None:
    spec = ranked_job(Framework.HOROVOD)
    ports = {task: launch(spec, task)[1]["port"] for task in spec.tasks()}
    assert ports == {
        "worker:0": "release",
        "worker:1": "release",
        "evaluator:0": "serve_horovod",
        "chief:0": "serve_horovod",
        "loader:0": "release",
    }


def test_a_framework_that_was_not_looked_for_is_tensorflow() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="x")
    assert spec.framework is Framework.AUTO
    assert launch(spec)[1]["framework"] == "tensorflow"


def docker_launch(spec: JobSpec, task: str = "worker:0") -> StarterLaunch:
    command = LaunchStarter(
        container=ContainerId("c1"), task=TaskId(task), attempt=1, generation=1, node=NodeId("n")
    )
    return make_starter_launch(spec, JobId("local_1"), "http://h:1", command, user="u")


def test_an_image_for_the_job_and_others_for_groups() -> None:
    spec = JobSpec(
        groups={
            "worker": TaskGroupSpec(count=1, resources=Resources(memory=512, vcores=2, gpus=1)),
            "ps": TaskGroupSpec(count=1, docker_image="ps:2"),
            "plain": TaskGroupSpec(count=1, docker_image=""),
            "tensorboard": TaskGroupSpec(count=1, command="tb"),
        },
        command="x",
        task_env={"SEED": "7"},
        docker_image="tf:1",
        docker=DockerSpec(engine="podman", engine_env={"CONTAINERS_CONF": "/c"}),
    )
    worker = docker_launch(spec)
    assert worker.env["DTF_DOCKER_IMAGE"] == "tf:1"
    assert worker.yarn_image is None
    assert worker.docker is not None
    variables = worker.docker.pop("variables")
    assert isinstance(variables, list)
    assert {"SEED", "DTF_TASK_INDEX", "DTF_DOCKER_IMAGE", *worker.defaults} <= set(variables)
    assert worker.docker == {
        "image": "tf:1",
        "engine": "podman",
        "engine_env": {"CONTAINERS_CONF": "/c"},
        "memory_mb": 512,
        "vcores": 2,
    }
    ps = docker_launch(spec, "ps:0")
    assert ps.docker is not None
    assert ps.docker["image"] == ps.env["DTF_DOCKER_IMAGE"] == "ps:2"
    for task in ("plain:0", "tensorboard:0"):
        native = docker_launch(spec, task)
        assert native.docker is None
        assert "DTF_DOCKER_IMAGE" not in native.env


def test_an_image_for_yarn_is_not_the_starters() -> None:
    spec = JobSpec(
        groups={"worker": TaskGroupSpec(count=1)},
        command="x",
        docker_image="tf:1",
        docker=DockerSpec(runtime=DockerRuntime.YARN),
    )
    made = docker_launch(spec)
    assert (made.docker, made.yarn_image) == (None, "tf:1")
    assert made.env["DTF_DOCKER_IMAGE"] == "tf:1"
