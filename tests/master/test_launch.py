"""What a starter is told of its task."""

from __future__ import annotations

from ytf.frameworks import tensorflow
from ytf.master.commands import LaunchStarter
from ytf.master.launch import make_launch
from ytf.specs.job import Framework, JobSpec, Resources, TaskGroupSpec
from ytf.specs.names import ContainerId, JobId, NodeId, TaskId


def launch(spec: JobSpec, task: str = "worker:1") -> tuple[dict[str, str], dict[str, object]]:
    command = LaunchStarter(
        container=ContainerId("c1"), task=TaskId(task), attempt=2, generation=3, node=NodeId("n")
    )
    made = make_launch(spec, JobId("local_1"), "http://h:1", command)
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
    group = TaskGroupSpec(count=2, command="own", env={"A": "group"})
    env, _ = launch(JobSpec(groups={"worker": group}, command="all", env={"A": "job", "B": "job"}))
    assert (env["DTF_TASK_PROGRAM"], env["A"], env["B"]) == ("own", "group", "job")


def test_the_starter_knows_who_it_is_and_how_to_treat_its_port() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="x")
    _, starter = launch(spec)
    assert (starter["container"], starter["attempt"], starter["generation"]) == ("c1", 2, 3)
    assert (starter["port"], starter["variables"]) == ("hold", "tensorflow")
    plain = JobSpec(groups=spec.groups, command="x", framework=Framework.NONE)
    assert launch(plain)[1]["port"] == "release"


def test_tensorboard_does_not_wait_for_the_others() -> None:
    spec = JobSpec(groups={"tensorboard": TaskGroupSpec(count=1, command="tb")}, command="x")
    assert launch(spec, "tensorboard:0")[1]["rendezvous"] is False


def test_with_servers_every_task_runs_the_stock_server() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, servers=True)
    assert launch(spec)[0]["DTF_TASK_PROGRAM"] == tensorflow.server_command()


def test_threads_follow_the_vcores_unless_the_user_says_otherwise() -> None:
    group = TaskGroupSpec(count=2, resources=Resources(vcores=3))
    command = LaunchStarter(
        container=ContainerId("c1"),
        task=TaskId("worker:0"),
        attempt=1,
        generation=1,
        node=NodeId("n"),
    )
    made = make_launch(
        JobSpec(groups={"worker": group}, command="x"), JobId("j"), "http://h:1", command
    )
    assert made.defaults["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in made.env
