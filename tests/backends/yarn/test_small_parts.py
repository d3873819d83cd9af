"""What travels to containers, what YARN's reports mean, and whose log a file is."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.backends.yarn.job.told import APP, report
from ytf.backends.api import Launch
from ytf.backends.yarn.baggage import Environment, StarterBaggage
from ytf.backends.yarn.contexts import Contexts
from ytf.backends.yarn.home import StagedJob, YarnHome
from ytf.backends.yarn.job.reports import (
    as_yarn_has_it,
    is_between_masters,
    master_url,
    state_of,
    status_of,
)
from ytf.backends.yarn.submit.shipping import check_name
from ytf.errors import SpecError
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.security.tokens import MASTER_TOKEN, Token
from ytf.hadoop.yarn.launch import FileType, LaunchContext, LocalFile, Visibility
from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState, FinalStatus
from ytf.master.info import JobInfo
from ytf.specs.job import JobSpec, TaskGroupSpec
from ytf.specs.names import ContainerId, JobId, TaskId
from ytf.specs.status import JobState, TaskState
from ytf.storage.files import LocalFiles

FILES = {
    "ytf_layer_1": LocalFile(
        url="hdfs://nn:1/l.tar.gz",
        size=5,
        modified_ms=17,
        type=FileType.ARCHIVE,
        visibility=Visibility.PUBLIC,
    )
}
TOKENS = {
    "am": Token(b"a", b"p", MASTER_TOKEN),
    "hdfs": Token(b"h", b"p", "HDFS_DELEGATION_TOKEN"),
}
HELD = Credentials(TOKENS, {"ytf.job.secret": b"s3cr3t"})


BROUGHT = StarterBaggage(
    script='exec "$it"\n',
    files=FILES,
    environments={
        "board": Environment(
            manifest="ytf_environment_1.json",
            layers={"abc": "ytf_layer_2"},
            files={"ytf_layer_2": FILES["ytf_layer_1"]},
        )
    },
)


def contexts(*, secure: bool = False) -> Contexts:
    return Contexts(user="alice", secure=secure, credentials=HELD)


def test_a_job_survives_its_stay_in_hdfs(tmp_path: Path) -> None:
    job = StagedJob(
        info=JobInfo(id=JobId(str(APP)), user="alice", submitted_at=1.5, backend="yarn"),
        spec=JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="echo 'ü'"),
        secret="s3cr3t",
        starter=BROUGHT,
    )
    home = YarnHome(LocalFiles(), str(tmp_path)).job(job.info.id)
    home.files.mkdir(home.staging)
    home.stage(job)
    assert home.staged() == job
    assert home.spec() == job.spec
    home.remove_staging()
    assert home.spec() is None


def test_a_starter_gets_everything_in_one_variable_and_no_master_token() -> None:
    launch = Launch(
        container=ContainerId("container_1_0001_01_000002"),
        task=TaskId("my_group:3"),
        env={"DTF_TASK_PROGRAM": 'echo "$HOME" `id` \\ \n <LOG_DIR> {{X}}'},
        defaults={"OMP_NUM_THREADS": "2"},
        starter={"attempt": 1},
        memory_mb=128,
    )
    context = contexts().starter(launch, BROUGHT)
    context.to_message()
    assert list(context.environment) == ["YTF_LAUNCH", "YTF_SCRIPT"]
    assert base64.b64decode(context.environment["YTF_SCRIPT"]) == b'exec "$it"\n'
    told = json.loads(base64.b64decode(context.environment["YTF_LAUNCH"]))
    assert told["env"] == launch.env
    assert told["defaults"] == {"HADOOP_USER_NAME": "alice", "OMP_NUM_THREADS": "2"}
    assert told["starter"] == {"attempt": 1, "log_prefix": "my_group-3"}
    assert context.files == FILES
    assert context.credentials == HELD.without_kind(MASTER_TOKEN)
    assert context.credentials.tokens.keys() == {"hdfs"}
    assert b"s3cr3t" not in context.environment["YTF_LAUNCH"].encode()


def test_a_group_brings_its_own_environment() -> None:
    launch = Launch(
        container=ContainerId("c"), task=TaskId("board:0"), env={}, defaults={}, starter={},
        memory_mb=1,
    )  # fmt: skip
    context = contexts().starter(launch, BROUGHT)
    assert context.files.keys() == {"ytf_layer_1", "ytf_layer_2"}
    told = json.loads(base64.b64decode(context.environment["YTF_LAUNCH"]))
    wanted = {"manifest": "ytf_environment_1.json", "layers": {"abc": "ytf_layer_2"}}
    assert told["starter"]["environment"] == wanted


def _run_as_a_node_does(context: LaunchContext, folder: Path) -> str:
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
    made = Contexts(user=user, secure=False, credentials=HELD).master(staging, script, FILES)
    made.to_message()
    words = [user, "--backend", "yarn", "--staging", staging]
    assert _run_as_a_node_does(made, tmp_path).splitlines() == words


def test_where_names_are_not_believed_none_is_told(tmp_path: Path) -> None:
    secure = contexts(secure=True).master("hdfs://nn/x", "env\n", FILES)
    assert "HADOOP_USER_NAME" not in _run_as_a_node_does(secure, tmp_path)


@pytest.mark.parametrize(
    ("state", "final", "means"),
    [
        (ApplicationState.NEW_SAVING, FinalStatus.UNDEFINED, JobState.SUBMITTED),
        (ApplicationState.ACCEPTED, FinalStatus.UNDEFINED, JobState.SUBMITTED),
        (ApplicationState.RUNNING, FinalStatus.UNDEFINED, JobState.STARTING),
        (ApplicationState.FINISHED, FinalStatus.SUCCEEDED, JobState.SUCCEEDED),
        (ApplicationState.FINISHED, FinalStatus.KILLED, JobState.KILLED),
        (ApplicationState.FINISHED, FinalStatus.ENDED, JobState.FAILED),
        (ApplicationState.FAILED, FinalStatus.FAILED, JobState.FAILED),
        (ApplicationState.KILLED, FinalStatus.KILLED, JobState.KILLED),
    ],
)
def test_what_a_state_of_yarn_means(
    state: ApplicationState, final: FinalStatus, means: JobState
) -> None:
    assert state_of(report(state, final)) is means


def test_how_far_a_running_job_is_its_progress_tells() -> None:
    def state(told: ApplicationReport, progress: float) -> JobState:
        return state_of(msgspec.structs.replace(told, progress=progress))

    first = report(ApplicationState.RUNNING)
    assert state(first, 0.49) is JobState.STARTING
    assert state(first, 0.5) is JobState.RUNNING
    # What the master before it had reached YARN has forgotten.
    assert state(report(ApplicationState.RUNNING, attempt=2), 0.0) is JobState.RUNNING
    assert state(report(ApplicationState.ACCEPTED, attempt=2), 0.0) is JobState.RUNNING


def test_a_master_knows_less_of_some_things_than_yarn() -> None:
    told = status_of(report(ApplicationState.KILLED), None)
    moved = msgspec.structs.replace(
        report(ApplicationState.KILLED), queue="root.ml", started_ms=0, finished_ms=9000,
        tracking_url="http://rm/it",
    )  # fmt: skip
    status = as_yarn_has_it(told, moved)
    assert (status.queue, status.started, status.finished) == ("root.ml", 1.5, 9.0)
    assert status.tracking_url == "http://rm/it"
    ending = as_yarn_has_it(told, report(ApplicationState.RUNNING))
    assert ending.finished is told.finished


def test_a_status_without_a_master() -> None:
    spec = JobSpec(groups={"worker": TaskGroupSpec(count=2)}, command="true")
    waiting = status_of(report(ApplicationState.ACCEPTED), spec)
    assert [(t.index, t.state) for t in waiting.tasks] == [
        (0, TaskState.PENDING),
        (1, TaskState.PENDING),
    ]
    assert (waiting.final_status, waiting.started, waiting.finished) == (None, 1.5, None)
    ended = status_of(report(ApplicationState.KILLED), None)
    assert (ended.diagnostics, ended.tasks, ended.tracking_url) == ("said", (), None)
    assert ended.final_status is not None


def test_where_a_master_is_and_when_there_is_none() -> None:
    running = report(ApplicationState.RUNNING, port=4711)
    assert master_url(running) == "http://node7:4711"
    assert master_url(report(ApplicationState.ACCEPTED, port=4711)) is None
    assert master_url(report(ApplicationState.RUNNING)) is None
    assert is_between_masters(report(ApplicationState.ACCEPTED, attempt=2))
    assert not is_between_masters(report(ApplicationState.ACCEPTED))
    assert not is_between_masters(running)
    assert not is_between_masters(report(ApplicationState.FAILED, attempt=2))


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "", 'a"b', "$HOME", "a`b", ".ytf/x"]
)
def test_names_that_would_break_a_nodes_script(name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name"):
        check_name(name)
