from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ytf.backends.api import Plan, Upload
from ytf.client import local_checks
from ytf.client.environments import MakeEnvironment, planned_environment
from ytf.client.plan import find_uploads, make_plan, safe_name
from ytf.client.plan_text import describe
from ytf.errors import RefusedError, SpecError
from ytf.frameworks import tensorflow
from ytf.packaging.made_environments import EnvironmentRecipe
from ytf.packaging.tensorboard import TensorBoardCommand
from ytf.specs.job import (
    EVALUATOR,
    TENSORBOARD,
    DockerRuntime,
    DockerSpec,
    Framework,
    JobSpec,
    OnFailure,
    Resources,
    TaskGroupSpec,
    Timeouts,
)

AWKWARD = "python 'it''s' \"$X\" `date` \\ ; ⟨ünïcödé⟩ 🦆\n  --second-line *"

TOOL = TensorBoardCommand(argv=("tensorboard",))


def _spec(**fields: object) -> JobSpec:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true")
    return msgspec.structs.replace(spec, **fields)


def _plan(
    spec: JobSpec,
    base: Path,
    *,
    backend: str = "local",
    environ: dict[str, str] | None = None,
    tensorboard: TensorBoardCommand = TOOL,
    hdfs_plugin: str | None = None,
    make_environment: MakeEnvironment | None = None,
) -> Plan:
    return make_plan(
        spec,
        backend=backend,
        user="alice",
        base=base,
        environ=environ or {"PATH": "/usr/bin"},
        tensorboard=lambda: tensorboard,
        hdfs_plugin=lambda: hdfs_plugin,
        make_environment=make_environment,
    )


def test_a_simple_spec_is_its_own_plan(tmp_path: Path) -> None:
    spec = _spec(
        command=AWKWARD,
        name="ünï 'x'",
        task_env={"A": "b c"},
        framework=Framework.TENSORFLOW,
    )
    plan = _plan(spec, tmp_path)
    assert plan == Plan(spec=spec, backend="local", user="alice")


def test_a_spec_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no command"):
        _plan(_spec(command=None), tmp_path)


class TestPaths:
    @pytest.mark.parametrize(
        "path", ["hdfs://users/u/data", "s3://bucket/x y", "file:///tmp/x", "/absolute/päth x"]
    )
    def test_urls_and_absolute_paths_stay(self, tmp_path: Path, path: str) -> None:
        plan = _plan(_spec(input=path, output=path), tmp_path)
        assert (plan.spec.input, plan.spec.output) == (path, path)

    def test_relative_ones_are_the_submitters_on_this_machine(self, tmp_path: Path) -> None:
        plan = _plan(_spec(input="in put", output="out"), tmp_path)
        assert plan.spec.input == str(tmp_path / "in put")
        assert plan.spec.output == str(tmp_path / "out")

    def test_elsewhere_nothing_is_interpreted(self, tmp_path: Path) -> None:
        plan = _plan(_spec(input="in"), tmp_path, backend="yarn")
        assert plan.spec.input == "in"


class TestScript:
    def test_it_is_shipped_under_its_name(self, tmp_path: Path) -> None:
        script = tmp_path / "sub" / "train.py"
        script.parent.mkdir()
        script.touch()
        plan = _plan(_spec(script="sub/../sub/train.py"), tmp_path)
        assert plan.uploads == (Upload(source=str(script), name="train.py"),)
        assert plan.spec.script == "train.py"

    @pytest.mark.parametrize(
        ("name", "safe"),
        [
            ("my train.py", "my_train.py"),
            ("$(x)*?[a].py", "__x____a_.py"),
            ("-x.py", "_x.py"),
            ("~.py", "_.py"),
            ("a'b\"c\n.py", "a_b_c_.py"),
        ],
    )
    def test_an_unsafe_name_gets_a_safe_one_beside_it(
        self, tmp_path: Path, name: str, safe: str
    ) -> None:
        script = tmp_path / name
        script.touch()
        plan = _plan(_spec(script=str(script)), tmp_path)
        assert [upload.name for upload in plan.uploads] == [name, safe]
        assert {upload.source for upload in plan.uploads} == {str(script)}
        assert plan.spec.script == safe

    @pytest.mark.parametrize("name", ["train.py", "träin-2_ü.py", "学习.py", "a+b@c%d.py"])
    def test_other_names_are_safe(self, name: str) -> None:
        assert safe_name(name) == name
        said = subprocess.run(
            ["bash", "-c", "printf '%s|' $NAME"],
            env={"NAME": name, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=True,
        )
        assert said.stdout.decode() == f"{name}|"

    def test_the_safe_name_is_taken(self, tmp_path: Path) -> None:
        for name in ("my train.py", "x"):
            (tmp_path / name).touch()
        with pytest.raises(SpecError, match="already"):
            _plan(_spec(script="my train.py", files={"my_train.py": "x"}), tmp_path)

    def test_a_directory_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "d").mkdir()
        with pytest.raises(SpecError, match="is a directory"):
            _plan(_spec(script="d"), tmp_path)


class TestFiles:
    def test_files_and_directories(self, tmp_path: Path) -> None:
        (tmp_path / "dir").mkdir()
        (tmp_path / "a b ü").touch()
        plan = _plan(_spec(files={"data/x": "dir", "n": "a b ü"}), tmp_path)
        assert plan.uploads == (
            Upload(source=str(tmp_path / "dir"), name="data/x"),
            Upload(source=str(tmp_path / "a b ü"), name="n"),
        )
        assert plan.spec.files == {"data/x": str(tmp_path / "dir"), "n": str(tmp_path / "a b ü")}

    def test_what_lies_in_hdfs_stays_there(self, tmp_path: Path) -> None:
        spec = _spec(script="hdfs:///code/train.py", files={"data": "hdfs://nn:8020/d"})
        plan = _plan(spec, tmp_path, backend="yarn")
        assert plan.uploads == (
            Upload(source="hdfs:///code/train.py", name="train.py"),
            Upload(source="hdfs://nn:8020/d", name="data"),
        )
        assert plan.spec.script == "train.py"

    @pytest.mark.parametrize(
        ("url", "backend"), [("hdfs:///code/train.py", "local"), ("s3://b/train.py", "yarn")]
    )
    def test_but_other_urls_are_refused(self, tmp_path: Path, url: str, backend: str) -> None:
        with pytest.raises(SpecError, match="cannot be shipped"):
            _plan(_spec(script=url), tmp_path, backend=backend)

    @pytest.mark.parametrize("fields", [{"script": "no.py"}, {"files": {"n": "no.py"}}])
    def test_a_missing_one_is_named(self, tmp_path: Path, fields: dict[str, object]) -> None:
        with pytest.raises(SpecError, match=r"no file 'no\.py' in "):
            _plan(_spec(**fields), tmp_path)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    return tmp_path / "venv"


class TestEnvironment:
    def test_a_path_goes_first_on_the_tasks_path(self, tmp_path: Path, venv: Path) -> None:
        plan = _plan(_spec(env="venv"), tmp_path)
        assert plan.spec.env == str(venv)
        assert plan.spec.task_env == {"PATH": f"{venv}/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}

    def test_on_yarn_it_is_shipped_and_no_path_of_this_machine_goes_along(
        self, tmp_path: Path, venv: Path
    ) -> None:
        plan = _plan(_spec(env="venv"), tmp_path, backend="yarn")
        assert (plan.spec.env, plan.spec.task_env) == (str(venv), {})

    def test_a_group_may_have_its_own(self, tmp_path: Path, venv: Path) -> None:
        groups = {
            "worker": TaskGroupSpec(count=1),
            "loader": TaskGroupSpec(count=1, env="venv"),
        }
        plan = _plan(_spec(groups=groups), tmp_path)
        assert plan.spec.groups["loader"].env == str(venv)
        assert plan.spec.groups["loader"].task_env["PATH"] == f"{venv}/bin:/usr/bin"
        assert plan.spec.groups["worker"].task_env == {}

    def test_the_users_own_variables_win(self, tmp_path: Path, venv: Path) -> None:
        plan = _plan(_spec(env=str(venv), task_env={"PATH": "/mine"}), tmp_path)
        assert plan.spec.task_env["PATH"] == "/mine"

    @pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
    def test_current_is_the_active_one(self, tmp_path: Path, venv: Path, variable: str) -> None:
        plan = _plan(_spec(env="current"), tmp_path, environ={variable: str(venv)})
        assert plan.spec.env == str(venv)

    def test_current_is_ours_where_none_is_active(self, tmp_path: Path) -> None:
        assert _plan(_spec(env="current"), tmp_path).spec.env == sys.prefix

    def test_a_file_is_made_into_one(
        self, tmp_path: Path, venv: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
        (tmp_path / "r.txt").write_text("")
        (tmp_path / "x.pex").touch()
        groups = {"worker": TaskGroupSpec(count=1, env="x.pex")}
        asked: list[str] = []

        def make(recipe: EnvironmentRecipe) -> Path:
            asked.append(recipe.about)
            return venv

        plan = _plan(_spec(env="r.txt", groups=groups), tmp_path, make_environment=make)
        assert asked == ["r.txt", "x.pex"]
        assert plan.spec.env == plan.spec.groups["worker"].env == str(venv)
        assert plan.spec.task_env == {"PATH": f"{venv}/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}

    def test_a_dry_run_makes_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("YTF_HOME", str(tmp_path / "home"))
        (tmp_path / "r.txt").write_text("")
        plan = _plan(_spec(env="r.txt"), tmp_path, make_environment=planned_environment)
        assert plan.spec.env.startswith(f"{tmp_path}/home/environments/requirements-")
        assert not os.path.exists(plan.spec.env)

    def test_anything_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.whl").touch()
        for wrong in ("x.whl", "nowhere", "."):
            with pytest.raises(SpecError, match="is not an environment") as caught:
                _plan(_spec(env=wrong), tmp_path)
            assert "venv or conda" in (caught.value.hint or "")
        with pytest.raises(SpecError, match="is neither on this machine nor in HDFS"):
            _plan(_spec(env="s3://envs/x.pex"), tmp_path)

    def test_a_directory_with_a_list_is_not_one_but_the_list_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "project").mkdir()
        (tmp_path / "project/pyproject.toml").touch()
        with pytest.raises(SpecError, match="is not an environment") as caught:
            _plan(_spec(env="project"), tmp_path)
        assert str(tmp_path / "project/pyproject.toml") in (caught.value.hint or "")


class TestTensorBoard:
    def test_it_becomes_a_group(self, tmp_path: Path) -> None:
        spec = _spec(tensorboard=True, output="out")
        found = TensorBoardCommand(argv=("/a b/python", "-m", "tensorboard.main"))
        plan = _plan(spec, tmp_path, tensorboard=found)
        assert plan.spec.groups[TENSORBOARD] == TaskGroupSpec(
            count=1,
            command="exec '/a b/python' -m tensorboard.main --logdir \"$DTF_OUTPUT_PATH\" "
            '--host "$YTF_TASK_HOST" --port "$YTF_TASK_PORT"',
            resources=Resources(memory=1024),
            framework=Framework.NONE,
        )

    def test_its_own_environment_comes_first_on_its_path_alone(self, venv: Path) -> None:
        tool = TensorBoardCommand(argv=("python", "-m", "tensorboard.main"), environment=str(venv))
        plan = _plan(_spec(tensorboard=True, output="/o"), venv, tensorboard=tool)
        group = plan.spec.groups[TENSORBOARD]
        assert group.env == str(venv)
        assert group.task_env == {"PATH": f"{venv}/bin:/usr/bin", "VIRTUAL_ENV": str(venv)}
        assert plan.spec.task_env == {}

    def test_how_long_it_stays_is_shown(self, tmp_path: Path) -> None:
        spec = _spec(tensorboard=True, output="/o", timeouts=Timeouts(tensorboard_s=1800))
        assert "TensorBoard stays: 30m after a success\n" in describe(_plan(spec, tmp_path))

    def test_a_group_of_that_name_is_it(self, tmp_path: Path) -> None:
        groups = {
            "worker": TaskGroupSpec(count=1),
            TENSORBOARD: TaskGroupSpec(count=1, resources=Resources(memory=77)),
        }
        plan = _plan(_spec(groups=groups, output="/o"), tmp_path)
        assert plan.spec.tensorboard
        assert plan.spec.groups[TENSORBOARD].resources.memory_mb == 77
        assert (plan.spec.groups[TENSORBOARD].command or "").startswith("exec tensorboard ")

    def test_a_command_of_its_own_stays(self, tmp_path: Path) -> None:
        groups = {
            "worker": TaskGroupSpec(count=1),
            TENSORBOARD: TaskGroupSpec(count=1, command="mine"),
        }
        plan = _plan(_spec(groups=groups), tmp_path, tensorboard=TensorBoardCommand(argv=()))
        assert plan.spec.groups[TENSORBOARD].command == "mine"

    def test_there_is_only_one(self, tmp_path: Path) -> None:
        groups = {"worker": TaskGroupSpec(count=1), TENSORBOARD: TaskGroupSpec(count=2)}
        with pytest.raises(SpecError, match="one TensorBoard"):
            _plan(_spec(groups=groups, output="/o"), tmp_path)

    def test_it_needs_an_output(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="output"):
            _plan(_spec(tensorboard=True), tmp_path)

    def test_no_environment_is_asked_for_without_it(self, tmp_path: Path) -> None:
        def forbidden() -> TensorBoardCommand:
            raise AssertionError

        make_plan(_spec(), backend="local", user="a", base=tmp_path, tensorboard=forbidden)


class TestServers:
    def test_every_group_runs_the_stock_server(self, tmp_path: Path) -> None:
        groups = {"ps": TaskGroupSpec(count=1), "worker": TaskGroupSpec(count=2)}
        plan = _plan(
            _spec(
                groups=groups, command="mine", servers=True, client=True, framework=Framework.NONE
            ),
            tmp_path,
        )
        for group in plan.spec.groups.values():
            assert group.command is None, "the master knows the server's command"
            assert group.framework is Framework.TENSORFLOW
        (upload,) = plan.uploads
        assert upload.name == tensorflow.SERVER_NAME
        assert Path(upload.source).read_bytes().startswith(b'"""A TensorFlow server')
        assert plan.spec.command == "mine"

    def test_but_tensorboard_does_not(self, tmp_path: Path) -> None:
        spec = _spec(command=None, servers=True, tensorboard=True, output="/o")
        plan = _plan(spec, tmp_path)
        assert (plan.spec.groups[TENSORBOARD].command or "").startswith("exec tensorboard ")

    def test_an_evaluator_cannot(self, tmp_path: Path) -> None:
        groups = {"worker": TaskGroupSpec(count=1), EVALUATOR: TaskGroupSpec(count=1)}
        with pytest.raises(SpecError, match="evaluator"):
            _plan(_spec(groups=groups, command=None, servers=True), tmp_path)


@pytest.mark.parametrize(
    "group",
    [
        TaskGroupSpec(count=1, resources=Resources(gpus=1)),
        TaskGroupSpec(count=1, overrides={0: Resources(gpus=2)}),
    ],
)
def test_gpus_are_refused_on_a_machine_without(
    tmp_path: Path, group: TaskGroupSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_checks, "list_gpus", lambda path, visible: [])
    with pytest.raises(RefusedError, match="and this machine has none"):
        _plan(_spec(groups={"worker": group}), tmp_path)
    _plan(_spec(groups={"worker": group}), tmp_path, backend="yarn")


def test_a_cluster_too_large_for_variables_is_noted(tmp_path: Path) -> None:
    def notes(count: int, backend: str, framework: Framework) -> tuple[str, ...]:
        groups = {"worker": TaskGroupSpec(count=count)}
        spec = _spec(groups=groups, framework=framework)
        return _plan(spec, tmp_path, backend=backend).notes

    assert notes(3000, "yarn", Framework.NONE) == ()
    (note,) = notes(3600, "yarn", Framework.NONE)
    assert "YTF_CLUSTER_SPEC_FILE" in note
    assert notes(3500, "yarn", Framework.TENSORFLOW) != ()
    assert notes(5000, "local", Framework.TENSORFLOW) == ()
    assert notes(9000, "local", Framework.TENSORFLOW) != ()


@pytest.mark.parametrize(
    ("asked", "noted"),
    [
        (Resources(), None),
        (Resources(vcores=1_000_000), "worker asks for 1000000 vcores, and this machine has"),
        (Resources(memory=1 << 30), "worker asks for 1024 TiB of memory, and this machine has"),
    ],
)
def test_more_than_this_machine_has_is_noted(
    tmp_path: Path, asked: Resources, noted: str | None
) -> None:
    groups = {"worker": TaskGroupSpec(count=2, overrides={1: asked})}
    said = _plan(_spec(groups=groups), tmp_path).notes
    assert [note[: len(noted or "")] for note in said] == ([noted] if noted else [])
    assert _plan(_spec(groups=groups), tmp_path, backend="yarn").notes == ()


def test_an_amount_of_memory_without_its_unit_is_noted(tmp_path: Path) -> None:
    groups = {
        "ps": TaskGroupSpec(count=1, resources=Resources(memory=2)),
        "worker": TaskGroupSpec(count=2, overrides={1: Resources(memory=16)}),
    }
    ps, worker = _plan(_spec(groups=groups), tmp_path).notes
    assert ps == (
        "ps gets 2 MB of memory, too little for most programs: a number without a unit is in MB; "
        "for 2 GiB write -m ps:2g, in a file memory: 2g"
    )
    assert worker.startswith("worker:1 gets 16 MB")
    assert worker.endswith("for 16 GiB write -m 'worker[1]:16g', in a file memory: 16g")
    groups = {"worker": TaskGroupSpec(count=1, resources=Resources(memory=128))}
    assert _plan(_spec(groups=groups), tmp_path, backend="yarn").notes == ()


def test_docker_images(tmp_path: Path) -> None:
    groups = {"ps": TaskGroupSpec(count=1, docker_image=""), "worker": TaskGroupSpec(count=1)}
    plan = _plan(_spec(groups=groups, docker_image="tf:1"), tmp_path)
    (note,) = [note for note in plan.notes if "docker" in note]
    assert note.startswith("worker runs in a docker image: if this machine's engine is a daemon")
    assert "in the image tf:1, run by docker or podman" in describe(plan)
    by_yarn = DockerSpec(runtime=DockerRuntime.YARN)
    plan = _plan(_spec(docker_image="tf:1", docker=by_yarn), tmp_path, backend="yarn")
    assert "in the image tf:1, run by YARN's docker runtime" in describe(plan)
    with pytest.raises(RefusedError, match="no docker runtime of YARN"):
        _plan(_spec(docker_image="tf:1", docker=by_yarn), tmp_path)


def test_servers_and_a_least_number_in_words(tmp_path: Path) -> None:
    groups = {"worker": TaskGroupSpec(count=4, min=2)}
    said = describe(_plan(_spec(groups=groups, command=None, servers=True), tmp_path))
    assert "  worker × 4 (at least 2): 1 vcore(s)" in said
    assert "    a TensorFlow server\n" in said


def test_a_plan_in_words(tmp_path: Path) -> None:
    (tmp_path / "my train.py").touch()
    groups = {
        "ps": TaskGroupSpec(count=1),
        "worker": TaskGroupSpec(
            count=2, resources=Resources(gpus=1), overrides={1: Resources(memory=16384)}
        ),
    }
    spec = _spec(groups=groups, script="my train.py", client=True, client_command="mine", name="j")
    said = describe(_plan(msgspec.structs.replace(spec, command="a\nb"), tmp_path, backend="yarn"))
    assert said == (
        "job 'j' for alice on yarn, queue default\n"
        "  ps × 1: 1 vcore(s), 8 GiB; does not end the job; on failure fail-job\n"
        "    $ a\n"
        "      b\n"
        "  worker × 2: 1 vcore(s), 8 GiB, 1 GPU(s); ends the job; on failure fail-job\n"
        "    worker:1: 1 vcore(s), 16 GiB\n"
        "    $ a\n"
        "      b\n"
        "  client × 1: here; ends the job\n"
        "    $ mine\n"
        "script: my_train.py\n"
        "env: node\n"
        "framework: tensorflow\n"
        "registry: rest\n"
        f"ships: {tmp_path}/my train.py as my train.py\n"
        f"ships: {tmp_path}/my train.py as my_train.py\n"
        "note: no command names the script my train.py: write $DTF_TASK_SCRIPT, and the command "
        "in single quotes, so that the task's shell expands it\n"
    )


def refused_script(script: str, base: Path) -> str:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=1)}, command="true", script=script)
    with pytest.raises(SpecError) as caught:
        find_uploads(spec, base, remote=False)
    return str(caught.value)


def test_a_missing_file_is_said_with_its_directory_once(tmp_path: Path) -> None:
    assert refused_script("no.py", tmp_path) == f"script: there is no file 'no.py' in {tmp_path}"
    assert (
        refused_script("a/no.py", tmp_path)
        == f"script: there is no file 'a/no.py' in {tmp_path / 'a'}"
    )
    absolute = str(tmp_path / "no.py")
    assert refused_script(absolute, Path("/")) == f"script: there is no file {absolute!r}"


class TestFrameworks:
    def test_it_is_found_and_told(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("import torch")
        plan = _plan(_spec(script="train.py", command="python $DTF_TASK_SCRIPT"), tmp_path)
        assert plan.spec.framework is Framework.PYTORCH
        assert plan.spec.framework_of("worker") is Framework.PYTORCH
        (note,) = plan.notes
        assert note.startswith("the framework is pytorch, as train.py imports torch; name another")

    def test_what_the_user_says_is_not_looked_for(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("import torch")
        spec = _spec(script="train.py", command="python train.py", framework=Framework.NONE)
        plan = _plan(spec, tmp_path)
        assert (plan.spec.framework, plan.notes) == (Framework.NONE, ())

    def test_torchrun_is_pytorch_too(self, tmp_path: Path) -> None:
        plan = _plan(_spec(command="torchrun x.py", framework=Framework.PYTORCH), tmp_path)
        assert plan.spec.framework is Framework.TORCHRUN
        other = _plan(_spec(command="mpirun x", framework=Framework.PYTORCH), tmp_path)
        assert (other.spec.framework, other.notes) == (Framework.PYTORCH, ())

    def test_where_nothing_is_found_it_is_tensorflow(self, tmp_path: Path) -> None:
        plan = _plan(_spec(), tmp_path)
        assert (plan.spec.framework, plan.notes) == (Framework.TENSORFLOW, ())

    def test_groups_with_commands_of_their_own_are_looked_at_one_by_one(
        self, tmp_path: Path
    ) -> None:
        groups = {
            "worker": TaskGroupSpec(count=1, command="torchrun x.py"),
            "loader": TaskGroupSpec(count=1),
            "solver": TaskGroupSpec(count=1, framework=Framework.NONE),
        }
        plan = _plan(_spec(groups=groups), tmp_path)
        assert plan.spec.framework_of("worker") is Framework.TORCHRUN
        assert plan.spec.framework_of("loader") is Framework.TENSORFLOW
        assert plan.spec.framework_of("solver") is Framework.NONE
        assert "framework: torchrun" in describe(plan)

    def test_tensorboard_and_servers_need_no_looking(self, tmp_path: Path) -> None:
        plan = _plan(_spec(tensorboard=True, output="o", command="torchrun x"), tmp_path)
        assert plan.spec.framework_of(TENSORBOARD) is Framework.NONE
        servers = _spec(servers=True, client=True, command="torchrun x")
        assert _plan(servers, tmp_path).spec.framework_of("worker") is Framework.TENSORFLOW

    def test_a_script_in_hdfs_is_not_looked_at(self, tmp_path: Path) -> None:
        spec = _spec(script="hdfs://h/train.py", command="python train.py")
        plan = _plan(spec, tmp_path, backend="yarn")
        assert plan.spec.framework is Framework.TENSORFLOW

    def test_several_processes(self, tmp_path: Path) -> None:
        groups = {"worker": TaskGroupSpec(count=2, processes=4)}
        plan = _plan(_spec(groups=groups, framework=Framework.PYTORCH), tmp_path)
        assert "worker × 2 (4 processes each)" in describe(plan)
        with pytest.raises(SpecError, match="a tensorflow task is one process, not 4"):
            _plan(_spec(groups=groups), tmp_path)

    def test_several_processes_in_an_image_are_torchruns_to_start(self, tmp_path: Path) -> None:
        groups = {
            "worker": TaskGroupSpec(count=2, processes=4),
            "one": TaskGroupSpec(count=1),
        }
        spec = _spec(groups=groups, framework=Framework.PYTORCH, docker_image="torch:2")
        with pytest.raises(SpecError, match="one process, not 4") as caught:
            _plan(spec, tmp_path)
        assert "torchrun" in str(caught.value.hint)
        own = TaskGroupSpec(count=2, processes=4, docker_image="")
        for allowed in (
            msgspec.structs.replace(spec, framework=Framework.AUTO, command="torchrun train.py"),
            msgspec.structs.replace(spec, groups={"worker": own}),
        ):
            assert _plan(allowed, tmp_path).spec.groups["worker"].processes == 4
        # YARN runs the starter itself in the image, and that the processes.
        by_yarn = msgspec.structs.replace(spec, docker=DockerSpec(runtime=DockerRuntime.YARN))
        assert _plan(by_yarn, tmp_path, backend="yarn").spec.groups["worker"].processes == 4

    def test_variables_that_ytf_sets_are_noted(self, tmp_path: Path) -> None:
        spec = _spec(framework=Framework.PYTORCH, task_env={"MASTER_PORT": "1", "SEED": "2"})
        (note,) = _plan(spec, tmp_path).notes
        assert note.startswith("ytf sets MASTER_PORT itself for pytorch")

    def test_restarting_one_task_of_many_is_noted(self, tmp_path: Path) -> None:
        alone = {"worker": TaskGroupSpec(count=1, on_failure=OnFailure.RESTART_TASK)}
        two = {"worker": TaskGroupSpec(count=2, on_failure=OnFailure.RESTART_TASK)}
        (note,) = _plan(_spec(groups=two, framework=Framework.JAX), tmp_path).notes
        assert "on_failure: restart-job" in note
        assert _plan(_spec(groups=alone, framework=Framework.JAX), tmp_path).notes == ()
        assert _plan(_spec(groups=two, framework=Framework.NONE), tmp_path).notes == ()


PLUGIN = "/here/tensorflow-plugins"


class TestHdfs:
    def test_the_plugin_goes_along_with_tensorflow_only(self, tmp_path: Path) -> None:
        plan = _plan(_spec(), tmp_path, hdfs_plugin=PLUGIN)
        assert plan.hdfs_plugin == PLUGIN
        assert f"hdfs:// in TensorFlow: by the plugin in {PLUGIN}\n" in describe(plan)
        for without in ({"framework": Framework.JAX}, {"hdfs_plugin": False}):
            plan = _plan(_spec(**without), tmp_path, hdfs_plugin=PLUGIN)
            assert plan.hdfs_plugin is None
            assert "hdfs://" not in describe(plan)

    def test_a_missing_plugin_is_noted_where_it_would_be_used(self, tmp_path: Path) -> None:
        (note,) = _plan(_spec(output="hdfs://users/x"), tmp_path).notes
        assert "TensorFlow itself opens no hdfs://users/x" in note
        assert "pip install ./native" in note
        assert "--stage_in" in note
        for silent in (
            {"output": "/out"},
            {"output": "hdfs://users/x", "framework": Framework.JAX},
            {"output": "hdfs://users/x", "hdfs_plugin": False},
            {"output": "hdfs://users/x", "libhdfs": True},
        ):
            assert _plan(_spec(**silent), tmp_path).notes == ()

    def test_variables_of_ones_own_are_left_alone_and_noted(self, tmp_path: Path) -> None:
        spec = _spec(task_env={"TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "/mine"})
        (note,) = _plan(spec, tmp_path, hdfs_plugin=PLUGIN).notes
        assert "not used there" in note
        assert "worker" in note
