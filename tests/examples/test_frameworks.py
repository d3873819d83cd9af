"""Real programs of other frameworks find each other without arguments."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, JOB_S, ROOT, Commands, Job

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(JOB_S + 60)]

TORCH = "/usr/bin/python3"
# Without these options torchrun of Debian's PyTorch 1.13 fails on its Python 3.11.
TORCHRUN = "torchrun --redirects 9:1 --tee 9:1"


@pytest.fixture(scope="module")
def jax() -> str:
    """The environment that has JAX, for ``--env``."""
    found = ROOT / ".venv-jax"
    if not (found / "bin" / "python").exists():
        pytest.fail(f"there is no {found}: run scripts/environment jax")
    return str(found)


@pytest.fixture(scope="module")
def horovod_client() -> str:
    """A program that meets others through Horovod's own client of its rendezvous."""
    found = ROOT / ".cache" / "horovod" / "horovod_client"
    if not found.exists():
        pytest.fail(f"there is no {found}: run scripts/environment horovod")
    return str(found)


def assert_all_found_the_line(job: Job, size: int) -> None:
    ends = job.finals()
    assert sorted(end.pop("rank") for end in ends) == [str(rank) for rank in range(size)]
    for end in ends:
        assert end["size"] == str(size)
        assert float(end["slope"]) == pytest.approx(3, abs=0.05)
        assert float(end["offset"]) == pytest.approx(2, abs=0.05)
    assert len({tuple(end.items()) for end in ends}) == 1


def test_pytorch_in_tasks_of_one_and_of_two_processes(ytf: Commands) -> None:
    job = ytf.submit(
        *("--wait", "-r", "worker:1,chief:1", "--processes", "worker:2"),
        *("-s", str(EXAMPLES / "ddp.py"), f"{TORCH} $DTF_TASK_SCRIPT"),
    )
    assert "the framework is pytorch, as ddp.py imports torch" in job.done.stderr
    assert_all_found_the_line(job, 3)
    assert "chief:0 | FINAL rank=0 " in job.logs()
    assert "worker:0 | [2] FINAL rank=2 " in job.logs()


def test_torchrun(ytf: Commands) -> None:
    job = ytf.submit(
        *("--wait", "-r", "worker:2", "--processes", "worker:1"),
        *("-s", str(EXAMPLES / "ddp.py"), f"{TORCHRUN} $DTF_TASK_SCRIPT"),
    )
    assert "the framework is torchrun, as the command runs torchrun" in job.done.stderr
    assert_all_found_the_line(job, 2)


def test_torchx_component_for_ddp(ytf: Commands) -> None:
    shutil.copy(EXAMPLES / "ddp.py", ytf.directory)
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    # Debian's torchrun cannot do without these values, either.
    done = ytf.run(
        *("torchx", "run", "-s", "yarn", "-cfg", "backend=local,env=node"),
        *("dist.ddp", "-j", "2x1", "--script", "ddp.py", "--rdzv_port", str(port)),
        *("--tee", "1", "--env", "PET_REDIRECTS=9:1"),
    )
    ytf.jobs.append(done.stdout.strip().rpartition("/")[2])
    job = Job(ytf, ytf.jobs[-1], done)
    assert job.wait()["state"] == "SUCCEEDED", job.logs()
    assert len(re.findall(r"FINAL rank=\d size=2", job.logs())) == 2, job.logs()


def test_jax(ytf: Commands, jax: str) -> None:
    job = ytf.submit(
        *("--wait", "--env", jax, "-r", "worker:2"),
        *("-s", str(EXAMPLES / "jax_regression.py"), "python $DTF_TASK_SCRIPT"),
    )
    assert "the framework is jax, as jax_regression.py imports jax" in job.done.stderr
    assert_all_found_the_line(job, 2)


def test_horovods_own_client_meets_at_our_rendezvous(ytf: Commands, horovod_client: str) -> None:
    job = ytf.submit(
        *("--wait", "--framework", "horovod", "-r", "worker:2", "--processes", "2"),
        horovod_client,
    )
    ends = {end.pop("rank"): end for end in job.finals()}
    # Each adds its rank plus one: to all, to those of its task, to its like in other tasks.
    assert ends == {
        "0": {"all": "10", "local": "3", "cross": "4"},
        "1": {"all": "10", "local": "3", "cross": "6"},
        "2": {"all": "10", "local": "7", "cross": "4"},
        "3": {"all": "10", "local": "7", "cross": "6"},
    }


def test_horovod_meets_again_after_a_restart(ytf: Commands, horovod_client: str) -> None:
    job = ytf.submit(
        *("--wait", "--framework", "horovod", "-r", "worker:2", "--on_failure", "restart-job"),
        f"{horovod_client} && [ $HOROVOD_RANK = 0 -o $YTF_GENERATION -gt 1 ]",
    )
    tasks = job.status()["tasks"]
    assert isinstance(tasks, list)
    assert [task["attempt"] for task in tasks] == [2, 2]
    assert [end["all"] for end in job.finals()] == ["3"] * 4


def test_mpirun_uses_the_hosts_of_all_tasks(ytf: Commands) -> None:
    job = ytf.submit(
        *("--wait", "-r", "chief:1,worker:1", "--processes", "worker:2"),
        *("--task_env", "OMPI_ALLOW_RUN_AS_ROOT=1"),
        *("--task_env", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"),
        *("--untracked", "worker"),
        "if [ $DTF_TASK_JOB_NAME = worker ]; then exec sleep 1000; fi; "
        "mpirun sh -c 'echo \"FINAL rank=$OMPI_COMM_WORLD_RANK of=$OMPI_COMM_WORLD_SIZE\"'",
    )
    assert "the framework is mpi, as the command runs mpirun" in job.done.stderr
    assert sorted(end["rank"] for end in job.finals()) == ["0", "1", "2"]


NO_FRAMEWORK = "import torch.distributed as dist; dist.init_process_group('gloo')"
ONE_DIES = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    raise ValueError("a bad sample")
dist.all_reduce(torch.ones(1))
"""


def test_the_first_failed_process_is_the_cause(ytf: Commands, tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(ONE_DIES)
    job = ytf.submit(
        *("--wait", "-r", "worker:1", "--processes", "2", "-s", "dies.py"),
        f"{TORCH} $DTF_TASK_SCRIPT",
        check=False,
    )
    diagnostics = str(job.status()["diagnostics"])
    assert "ytf: rank 1 (process 1 of the task's 2) failed first" in diagnostics
    assert "ValueError: a bad sample" in diagnostics


def test_a_pytorch_program_without_its_framework_is_told_of_it(
    ytf: Commands, tmp_path: Path
) -> None:
    (tmp_path / "lost.py").write_text(NO_FRAMEWORK)
    job = ytf.submit(
        *("--wait", "--framework", "none", "-r", "worker:1", "-s", "lost.py"),
        f"{TORCH} $DTF_TASK_SCRIPT",
        check=False,
    )
    assert "--framework pytorch sets" in str(job.status()["diagnostics"])
