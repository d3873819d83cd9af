"""The variables of each framework, for the second task of a group with two processes each."""

from __future__ import annotations

import pytest

from tests.frameworks.tasks import all_variables, make_task
from ytf.frameworks.api import by_name


def test_pytorch_gets_what_torchrun_would_tell_it() -> None:
    found = all_variables(by_name("pytorch"), make_task(processes=2), local_rank=1)
    assert found == {
        "MASTER_ADDR": "a",
        "MASTER_PORT": "1",
        "RANK": "4",
        "WORLD_SIZE": "5",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "NODE_RANK": "2",
    }


def test_an_evaluator_is_a_world_of_its_own() -> None:
    task = make_task("evaluator", 0, host="e", port=9)
    found = all_variables(by_name("pytorch"), task)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("e", "9")
    assert (found["RANK"], found["WORLD_SIZE"]) == ("0", "1")


def test_torchrun_finds_its_options() -> None:
    found = all_variables(by_name("torchrun"), make_task(processes=2))
    assert found == {
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": "2",
        "PET_NODE_RANK": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "a:1",
        "PET_RDZV_ID": "job_1.4",
        "PET_RDZV_CONF": "is_host=0",
        "PET_LOCAL_ADDR": "b",
        "PET_MASTER_ADDR": "a",
        "PET_MASTER_PORT": "1",
    }
    assert by_name("torchrun").starts_processes


def test_the_first_torchrun_keeps_the_store() -> None:
    found = all_variables(by_name("torchrun"), make_task("chief", 0))
    assert found["PET_RDZV_CONF"] == "is_host=1"


def test_jax_finds_coordinator_id_and_count() -> None:
    found = all_variables(by_name("jax"), make_task(processes=2), local_rank=1)
    assert found == {
        "JAX_COORDINATOR_ADDRESS": "a:1",
        "JAX_NUM_PROCESSES": "5",
        "JAX_PROCESS_ID": "4",
        "OMPI_MCA_orte_hnp_uri": "0.0;tcp://a:1",
        "OMPI_COMM_WORLD_SIZE": "5",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    }


@pytest.mark.parametrize(
    ("gpus", "processes", "local_rank", "own"),
    [(4, 1, 0, "0,1,2,3"), (4, 2, 1, "2,3"), (2, 2, 1, "1"), (1, 2, 0, None), (0, 1, 0, None)],
)
def test_a_jax_process_has_its_share_of_the_gpus(
    gpus: int, processes: int, local_rank: int, own: str | None
) -> None:
    task = make_task(processes=processes, gpus=gpus, ranked=[("worker", processes)])
    found = all_variables(by_name("jax"), task, local_rank)
    assert found.get("JAX_LOCAL_DEVICE_IDS") == own


def test_horovod_finds_the_rendezvous_and_all_its_ranks() -> None:
    found = all_variables(by_name("horovod"), make_task(processes=2), local_rank=1)
    assert found == {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "a",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
        "HOROVOD_HOSTNAME": "worker-1",
        "HOROVOD_RANK": "4",
        "HOROVOD_SIZE": "5",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        # The chief has no process with the local rank 1.
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
    }


def test_mpi_finds_the_hostfile() -> None:
    assert all_variables(by_name("mpi"), make_task()) == {
        "OMPI_MCA_orte_default_hostfile": "/data/hosts",
        "PRTE_MCA_prte_default_hostfile": "/data/hosts",
    }


@pytest.mark.parametrize("name", ["pytorch", "torchrun", "jax", "horovod"])
def test_a_client_has_no_rank(name: str) -> None:
    assert all_variables(by_name(name), make_task("client", 0, port=None)) == {}
