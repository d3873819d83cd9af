"""Which GPUs the tasks of a local job see. There are none: an ``nvidia-smi`` shows two."""

from __future__ import annotations

import pytest

from tests.e2e.harness import FOREVER, HERE, HOLD, Ytf, states

SHOW = 'echo "sees ${CUDA_VISIBLE_DEVICES-everything} ${CUDA_DEVICE_ORDER-unordered}"; '


@pytest.fixture
def two_gpus(ytf: Ytf) -> None:
    smi = ytf.work / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(
        "#!/bin/sh\n[ \"${1%%=*}\" != --query-gpu ] || printf '0, GPU-a\\n1, GPU-b\\n'\n"
    )
    smi.chmod(0o755)
    ytf.env["PATH"] = f"{smi.parent}:{ytf.env['PATH']}"
    ytf.env.pop("CUDA_VISIBLE_DEVICES", None)


def seen(ytf: Ytf, job: str) -> dict[str, str]:
    lines = ytf.run("ytf", "logs", job).stdout.splitlines()
    pairs = (line.split(" | sees ") for line in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


@pytest.mark.usefixtures("two_gpus")
def test_each_worker_has_a_gpu_of_its_own_and_the_ps_none(ytf: Ytf) -> None:
    job = ytf.submit("ps:1,worker:2", HERE + SHOW + HOLD, "--task_gpus", "worker:1")
    job.wait_running("ps:0", "worker:0", "worker:1")
    told = seen(ytf, job.id)
    assert told.pop("ps:0") == " unordered"
    assert sorted(told.values()) == ["0 PCI_BUS_ID", "1 PCI_BUS_ID"]
    # Another job of the same user finds none left, and says so.
    other = ytf.submit("worker:1", "true", "--task_gpus", "1")
    status = other.end("FAILED")
    assert "other tasks of this user have all but 0 of the node's 2 GPUs" in status.diagnostics
    ytf.open_gate()
    job.end("SUCCEEDED")
    again = ytf.submit("worker:1", SHOW, "--task_gpus", "2")
    again.end("SUCCEEDED")
    assert seen(ytf, again.id) == {"worker:0": "0,1 PCI_BUS_ID"}


@pytest.mark.usefixtures("two_gpus")
def test_a_restarted_task_keeps_its_gpu(ytf: Ytf) -> None:
    program = SHOW + f'[ "$YTF_ATTEMPT" = 2 ] || exit 1; {HERE}{HOLD}'
    job = ytf.submit("worker:2", program, "--task_gpus", "1", "--on_failure", "restart-task")
    job.wait_running("worker:0", "worker:1", attempt=2)
    # Two attempts of each task.
    told = sorted((name[: len("worker:0")], gpus) for name, gpus in seen(ytf, job.id).items())
    assert [name for name, _ in told] == ["worker:0", "worker:0", "worker:1", "worker:1"]
    assert sorted(set(told)) == told[::2]
    assert {gpus for _, gpus in told} == {"0 PCI_BUS_ID", "1 PCI_BUS_ID"}
    ytf.open_gate()
    assert set(states(job.end("SUCCEEDED")).values()) == {"SUCCEEDED"}


@pytest.mark.usefixtures("two_gpus")
def test_a_job_that_asks_for_none_sees_what_the_machine_has(ytf: Ytf) -> None:
    job = ytf.submit("worker:1,evaluator:1", HERE + SHOW + FOREVER)
    job.wait_running("worker:0", "evaluator:0")
    assert seen(ytf, job.id) == {"worker:0": "everything unordered", "evaluator:0": " unordered"}
    ytf.run("ytf", "kill", job.id)
    job.end("KILLED")
