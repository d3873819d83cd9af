from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given

from tests.specs.strategies import job_specs
from ytf.errors import SpecError
from ytf.specs.check import MAX_SECONDS, MAX_STRING, check
from ytf.specs.job import (
    Backoff,
    DockerSpec,
    JobSpec,
    MasterSpec,
    Resources,
    TaskGroupSpec,
    Timeouts,
)


def job(**fields: object) -> JobSpec:
    usual = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true")
    return msgspec.structs.replace(usual, **fields)


def group(**fields: object) -> JobSpec:
    usual = TaskGroupSpec(count=2)
    return job(groups={"worker": msgspec.structs.replace(usual, **fields)})


@given(job_specs())
def test_random_sensible_specs_pass(spec: JobSpec) -> None:
    check(spec)


@pytest.mark.parametrize(
    "spec",
    [
        job(),
        job(groups={"ps": TaskGroupSpec(count=1)}),
        job(groups={"evaluator": TaskGroupSpec(count=1)}),
        job(command=None, groups={"worker": TaskGroupSpec(count=1, command="true")}),
        job(servers=True, command=None),
        job(servers=True, client=True),
        job(servers=True, client=True, command=None, client_command="true"),
        job(client=True, client_command="true"),
        job(tensorboard=True, output="/out"),
        job(
            command=None,
            groups={
                "worker": TaskGroupSpec(count=1, command="true"),
                "tensorboard": TaskGroupSpec(count=1, tracked=False),
            },
            output="/out",
        ),
        job(groups={"worker": TaskGroupSpec(count=1), "tensorboard": TaskGroupSpec(count=1)}
            , output="/out"),
        job(files={"data/train": "/a", "data/test": "/b"}, script="/x/data.py"),
        job(task_env={"PATH": "", "LANG": "C", "DTF": "x", "a b": "\n"}),
        job(timeouts=Timeouts(stop_grace_s=0, evaluator_s=0, tensorboard_s=0)),
        job(timeouts=Timeouts(tensorboard_s=60), tensorboard=True, output="/out"),
        group(backoff=Backoff(initial_s=0, factor=1, max_s=0)),
        group(min=2, overrides={1: Resources()}, max_restarts=0),
    ],
)  # fmt: skip
def test_what_makes_sense_passes(spec: JobSpec) -> None:
    check(spec)


@pytest.mark.parametrize(
    ("spec", "where", "says"),
    [
        (job(groups={}), "groups", "at least one"),
        (job(groups={"a b": TaskGroupSpec(count=1)}), "groups.a b", "cannot be the name"),
        (job(groups={"": TaskGroupSpec(count=1)}), "groups.''", "needs a name"),
        (job(groups={"client": TaskGroupSpec(count=1)}), "groups.client", "reserved"),
        (
            job(groups={"a": TaskGroupSpec(count=1), "A": TaskGroupSpec(count=1)}),
            "groups.A",
            "differ in case only",
        ),
        (group(count=0), "groups.worker.count", "must be 1 to 100000"),
        (group(count=-1), "groups.worker.count", "must be 1 to 100000"),
        (job(timeouts=Timeouts(tensorboard_s=60)), "timeouts.tensorboard_s", "no TensorBoard"),
        (job(timeouts=Timeouts(tensorboard_s=-1)), "timeouts.tensorboard_s", ""),
        (group(count=100_001), "groups.worker.count", "must be 1 to 100000"),
        (group(min=3), "groups.worker.min", "count, which is 2"),
        (group(min=0), "groups.worker.min", "must be 1"),
        (group(overrides={2: Resources()}), "groups.worker.overrides.2", "no task 2"),
        (group(overrides={-1: Resources()}), "groups.worker.overrides.-1", "no task -1"),
        (
            group(overrides={1: Resources(vcores=0)}),
            "groups.worker.overrides.1.vcores",
            "must be 1",
        ),
        (group(resources=Resources(memory=0)), "groups.worker.resources.memory", "more than 0"),
        (
            group(resources=Resources(memory=2**31)),
            "groups.worker.resources.memory",
            "YARN can count",
        ),
        (group(resources=Resources(gpus=-1)), "groups.worker.resources.gpus", "must be 0"),
        (group(max_restarts=-1), "groups.worker.max_restarts", "must be 0"),
        (group(backoff=Backoff(initial_s=-1)), "groups.worker.backoff.initial_s", "0 or more"),
        (group(backoff=Backoff(factor=0.5)), "groups.worker.backoff.factor", "must be 1 to 100"),
        (group(backoff=Backoff(factor=1e9)), "groups.worker.backoff.factor", "must be 1 to 100"),
        (group(backoff=Backoff(max_s=0.5)), "groups.worker.backoff.max_s", "initial_s"),
        (group(backoff=Backoff(max_s=math.inf)), "groups.worker.backoff.max_s", "finite"),
        (
            group(task_env={"DTF_X": ""}),
            "groups.worker.task_env.DTF_X",
            "sets this variable itself",
        ),
        (
            group(task_env_overrides={0: {"YTF_X": ""}}),
            "groups.worker.task_env_overrides.0.YTF_X",
            "sets this variable itself",
        ),
        (
            group(task_env_overrides={9: {"A": ""}}),
            "groups.worker.task_env_overrides.9",
            "there is no task 9",
        ),
        (group(command=" "), "groups.worker.command", "empty"),
        (job(command=None), "groups.worker.command", "no command"),
        (job(command=""), "command", "empty"),
        (job(command="x" * MAX_STRING), "command", "128 KiB"),
        (job(command="a\0b"), "command", "NUL"),
        (job(command="\ud800"), "command", "UTF-8"),
        (job(name=""), "name", "empty"),
        (job(name="a\nb"), "name", "control characters"),
        (job(name="a\x9b"), "name", "control characters"),
        (job(queue=""), "queue", "empty"),
        (job(env=""), "env", "empty"),
        (job(output=""), "output", "empty"),
        (job(docker_image=" "), "docker_image", "cannot be the name of an image"),
        (job(docker_image="-v/:/host"), "docker_image", "cannot be the name of an image"),
        (
            job(groups={"w": TaskGroupSpec(count=1, docker_image="a b")}),
            "groups.w.docker_image",
            "cannot be the name of an image",
        ),
        (job(docker_image="tf:1", env="current"), "env", "brings its own python"),
        (
            job(docker_image="tf:1", groups={"w": TaskGroupSpec(count=1, env="/venv")}),
            "groups.w.env",
            "w runs in a docker image",
        ),
        (
            job(
                output="/o",
                groups={
                    "w": TaskGroupSpec(count=1),
                    "tensorboard": TaskGroupSpec(count=1, docker_image="tf:1"),
                },
            ),
            "groups.tensorboard.docker_image",
            "TensorBoard does not run in an image",
        ),
        (job(docker=DockerSpec(engine="my/podman")), "docker.engine", "from / on"),
        (
            job(docker=DockerSpec(engine_env={"YTF_X": "1"})),
            "docker.engine_env.YTF_X",
            "ytf sets this variable itself",
        ),
        (job(command="python $DTF_TASK_SCRIPT"), "command", "there is no script"),
        (job(command='python "${DTF_TASK_SCRIPT}" -x'), "command", "there is no script"),
        (job(tensorboard=True), "output", "where the summaries are"),
        (
            job(groups={"worker": TaskGroupSpec(count=1), "tensorboard": TaskGroupSpec(count=1)}),
            "output",
            "where the summaries are",
        ),
        (
            job(
                groups={
                    "worker": TaskGroupSpec(count=1),
                    "tensorboard": TaskGroupSpec(count=1, tracked=True),
                },
                output="/out",
            ),
            "groups.tensorboard.tracked",
            "never ends by itself",
        ),
        (job(groups={"tensorboard": TaskGroupSpec(count=1)}, output="/o"), "groups", "end the job"),
        (group(tracked=False), "groups", "nothing would end the job"),
        (
            job(
                client=True, command=None, groups={"worker": TaskGroupSpec(count=1, command="true")}
            ),
            "client_command",
            "needs a command",
        ),
        (job(client_command="true"), "client_command", "no task runs this command"),
        (job(servers=True), "command", "only a client"),
        (
            job(
                servers=True,
                command=None,
                groups={"worker": TaskGroupSpec(count=1, command="true")},
            ),
            "groups.worker.command",
            "TensorFlow server",
        ),
        (job(task_env={"": "x"}), "task_env.''", "needs a name"),
        (job(task_env={"A=B": "x"}), "task_env.A=B", "no '='"),
        (job(task_env={"A\0": "x"}), r"task_env.'A\x00'", "NUL"),
        (job(task_env={"A": "x\0"}), "task_env.A", "NUL"),
        (job(task_env={"A": "x" * MAX_STRING}), "task_env.A", "128 KiB"),
        (job(task_env={"YTF_HOME": "x"}), "task_env.YTF_HOME", "sets this variable itself"),
        (job(task_env={"TF_CONFIG": "x"}), "task_env.TF_CONFIG", "sets this variable itself"),
        (job(files={"/a": "/a"}), "files./a", "working directory"),
        (job(files={"../a": "/a"}), "files.../a", "working directory"),
        (job(files={"a/../b": "/a"}), "files.a/../b", "working directory"),
        (job(files={"": "/a"}), "files.''", "working directory"),
        (job(files={"a//b": "/a"}), "files.a//b", "working directory"),
        (job(files={"a": ""}), "files.a", "empty"),
        (job(files={"a": "/a", "a/b": "/b"}), "files.a/b", "inside 'a'"),
        (job(files={"a/b": "/b", "a": "/a"}), "files.a/b", "inside 'a'"),
        (job(script="/x/train.py", files={"train.py": "/y"}), "files.train.py", "is the script"),
        (job(script="/x/"), "script", "does not name a file"),
        (job(timeouts=Timeouts(job_s=0)), "timeouts.job_s", "more than 0"),
        (job(timeouts=Timeouts(allocation_s=-1)), "timeouts.allocation_s", "more than 0"),
        (job(timeouts=Timeouts(job_s=math.nan)), "timeouts.job_s", "finite"),
        (job(timeouts=Timeouts(job_s=math.inf)), "timeouts.job_s", "finite"),
        (
            job(timeouts=Timeouts(master_silence_s=MAX_SECONDS + 1)),
            "timeouts.master_silence_s",
            "ten years",
        ),
        (job(timeouts=Timeouts(stop_grace_s=-1)), "timeouts.stop_grace_s", "0 or more"),
        (job(master=MasterSpec(max_attempts=0)), "master.max_attempts", "must be 1"),
        (job(master=MasterSpec(attempt_window_s=0)), "master.attempt_window_s", "more than 0"),
        (
            job(master=MasterSpec(resources=Resources(vcores=0))),
            "master.resources.vcores",
            "must be 1",
        ),
        (job(max_node_failures=0), "max_node_failures", "must be 1"),
        (job(log_limit_mb=0), "log_limit_mb", "must be 1"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_place(spec: JobSpec, where: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        check(spec)
    assert caught.value.where == where
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_the_longest_wait_of_any_allowed_backoff_is_a_number() -> None:
    steep = Backoff(initial_s=1.0, factor=100.0, max_s=MAX_SECONDS)
    check(group(backoff=steep))
    assert steep.delay_s(10**6) == MAX_SECONDS


def test_a_group_runs_what_it_says_or_else_what_the_job_says() -> None:
    groups = {
        "worker": TaskGroupSpec(count=1),
        "chief": TaskGroupSpec(count=1, command="own"),
        "tensorboard": TaskGroupSpec(count=1),
    }
    spec = job(groups=groups, command="all")
    assert [spec.command_of(name) for name in groups] == ["all", "own", None]
    servers = job(servers=True, client=True, command="for the client")
    assert servers.command_of("worker") is None
