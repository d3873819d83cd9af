from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from torchx.components.dist import ddp
from torchx.specs import AppDef, BindMount, Resource, RetryPolicy, Role, VolumeMount, macros

from ytf.errors import SpecError
from ytf.specs.job import Framework, JobSpec, OnFailure, Placement, Resources
from ytf.torchx.app_spec import WORKSPACE, group_name, job_spec

SMALL = Resource(cpu=1, gpu=0, memMB=100)


def app(*roles: Role) -> AppDef:
    return AppDef(name="an app", roles=list(roles))


def role(name: str = "trainer", **fields: object) -> Role:
    given = {"image": "some/image:1", "entrypoint": "true", "resource": SMALL, **fields}
    return Role(name=name, **given)  # type: ignore[arg-type]


def output(spec: JobSpec, group: str = "trainer", cwd: str | Path = "/", **variables: str) -> str:
    """What the command of a group prints, with these variables, in a directory."""
    made = spec.groups[group]
    done = subprocess.run(
        ["bash", "-c", made.command or ""],
        env={"PATH": "/usr/bin:/bin", **spec.task_env, **made.task_env, **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_role_becomes_a_task_group() -> None:
    spec = job_spec(
        app(
            role(
                "trainer",
                num_replicas=4,
                min_replicas=2,
                resource=Resource(cpu=2, gpu=1, memMB=3000, devices={"yarn.io/fpga": 1}),
                env={"FOO": "it's $HOME"},
                port_map={"store": 29500},
            ),
            role("reader"),
        ),
        {"queue": "ml", "tags": ["a", "b"], "priority": 7, "env": "node", "placement": "spread"},
    )
    trainer, reader = spec.groups["trainer"], spec.groups["reader"]
    assert (trainer.count, trainer.min, trainer.tracked) == (4, 2, True)
    assert trainer.resources == Resources(memory=3000, vcores=2, gpus=1, others={"yarn.io/fpga": 1})
    assert trainer.task_env == {"FOO": "it's $HOME"}
    assert trainer.on_failure is OnFailure.FAIL_JOB
    assert (reader.count, reader.min) == (1, None)
    assert (spec.name, spec.queue, spec.tags, spec.priority) == ("an app", "ml", ("a", "b"), 7)
    assert (spec.env, spec.placement) == ("node", Placement.SPREAD)
    assert spec.docker_image_of("trainer") is None


def test_all_roles_have_to_end_whatever_they_are_called() -> None:
    spec = job_spec(app(role("chief"), role("ps"), role("evaluator")), {})
    assert spec.tracked_groups() == {"chief", "ps", "evaluator"}
    assert not spec.deciding_groups()


def test_what_the_shell_would_read_reaches_the_program() -> None:
    args = ["it's", "$HOME", "", "a  b", "*", "back\\slash", 'say "yes"']
    spec = job_spec(app(role(entrypoint="printf", args=["[%s]", *args])), {})
    # torchx itself reads $$ and ${macro} only.
    assert output(spec) == "".join(f"[{arg}]" for arg in args)


def test_macros_have_their_values_in_the_task() -> None:
    words = f"<{macros.app_id} {macros.replica_id} {macros.img_root}>"
    spec = job_spec(
        app(
            role(
                entrypoint="bash",
                args=["-c", f'echo \'{words}\' "$PLACE" "$PLAIN" $${{{macros.rank0_env}}}'],
                env={"PLACE": f"{macros.img_root}/x-{macros.replica_id}", "PLAIN": "p"},
            )
        ),
        {},
    )
    printed = output(
        spec,
        YTF_JOB_ID="local_1",
        DTF_TASK_INDEX="3",
        DTF_TRAINER_HOSTS="node-1.example.com:4711,node-2:1",
    )
    assert printed == "<local_1 3 /> //x-3 p node-1.example.com\n"


def test_the_first_host_may_have_an_ipv6_address() -> None:
    spec = job_spec(
        app(role(entrypoint="bash", args=["-c", f"echo $${{{macros.rank0_env}}}:29500"])), {}
    )
    assert output(spec, DTF_TRAINER_HOSTS="[fe80::1]:4711") == "[fe80::1]:29500\n"


def test_tasks_begin_in_the_workspace() -> None:
    spec = job_spec(app(role(metadata={WORKSPACE: "/some/copy"}), role("other")), {})
    assert spec.files == {"torchx_role_trainer": "/some/copy"}
    assert spec.groups["other"].command == "exec true"


def test_each_task_has_its_own_copy_of_the_workspace(tmp_path: Path) -> None:
    shipped, container = tmp_path / "shipped", tmp_path / "container"
    (shipped / "part").mkdir(parents=True)
    (shipped / "part" / "data").write_text("old")
    (shipped / "part" / "data").chmod(0o444)
    container.mkdir()
    # As YARN does: the directory itself is shared by all tasks of a node.
    (container / "torchx_role_trainer").symlink_to(shipped)
    words = ["-c", "cat part/data; ls part; touch part/new"]
    spec = job_spec(
        app(role(metadata={WORKSPACE: "/some/copy"}, entrypoint="bash", args=words)), {}
    )
    # A second attempt in the same container finds what the first has left.
    for expected in ("olddata\n", "olddata\nnew\n"):
        assert output(spec, cwd=container) == expected
    assert [path.name for path in (shipped / "part").iterdir()] == ["data"]


def test_images_are_used_only_if_asked_for() -> None:
    with_image = job_spec(app(role()), {"docker": True})
    assert with_image.docker_image_of("trainer") == "some/image:1"
    assert with_image.env == "node"
    without = job_spec(app(role()), {"docker": False})
    assert without.docker_image_of("trainer") is None
    assert without.env == "current"


@pytest.mark.parametrize(
    ("retries", "policy", "expected"),
    [
        (0, RetryPolicy.APPLICATION, OnFailure.FAIL_JOB),
        (2, RetryPolicy.APPLICATION, OnFailure.RESTART_JOB),
        (2, RetryPolicy.REPLICA, OnFailure.RESTART_TASK),
    ],
)
def test_retries(retries: int, policy: RetryPolicy, expected: OnFailure) -> None:
    group = job_spec(app(role(max_retries=retries, retry_policy=policy)), {}).groups["trainer"]
    assert (group.on_failure, group.max_restarts) == (expected, retries)


def test_the_framework_is_the_launcher_of_the_only_role() -> None:
    training = ddp(script="train.py", j="2x1")
    assert job_spec(training, {}).framework is Framework.TORCHRUN
    assert job_spec(training, {"framework": "none"}).framework is Framework.NONE
    assert job_spec(app(role()), {}).framework is Framework.NONE
    assert job_spec(app(*training.roles, role()), {}).framework is Framework.NONE


def test_names_of_roles_become_names_of_groups() -> None:
    assert group_name("train-model.v2") == "train_model_v2"
    assert group_name("1st") == "role_1st"
    assert group_name("Client") == "Client_"
    assert group_name("tensorboard") == "tensorboard_"
    for name in ("train-model", "1st", "Ünicode", "ps", "client", "tensorboard", "x" * 99):
        job_spec(app(role(name)), {})
        assert group_name(group_name(name)) == group_name(name)
    with pytest.raises(SpecError, match="two roles become the task group 'a_b'"):
        job_spec(app(role("a-b"), role("a.b")), {})


def test_what_a_job_cannot_do_is_refused() -> None:
    here = BindMount(src_path="/data", dst_path="/data")
    job_spec(app(role(mounts=[here])), {})
    for mount in (BindMount(src_path="/data", dst_path="/other"), VolumeMount("v", "/data")):
        with pytest.raises(SpecError, match="cannot be mounted"):
            job_spec(app(role(mounts=[mount])), {})
    with pytest.raises(SpecError, match="cannot be mounted"):
        job_spec(app(role(mounts=[here])), {"docker": True})
    with pytest.raises(SpecError, match="HOT_SPARE"):
        job_spec(app(role(retry_policy=RetryPolicy.HOT_SPARE)), {})
    with pytest.raises(SpecError, match="framework"):
        job_spec(app(role()), {"framework": "torch"})
