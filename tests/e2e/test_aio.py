"""``ytf.aio`` with real jobs of this machine."""

from __future__ import annotations

import signal

from tests.e2e.harness import Ytf
from tests.functions.framework_stubs import TENSORFLOW
from ytf.testing.waiting import eventually

FUNCTION = """
import asyncio, os, pathlib, threading, time, ytf
def task():
    print("began", flush=True)
    pathlib.Path(os.environ["GATE"], "runs").touch()
    time.sleep(600)
"""


def test_a_cancelled_run_kills_its_job_and_what_is_followed_can_be_left(ytf: Ytf) -> None:
    program = """
async def main():
    run = asyncio.ensure_future(ytf.aio.run(task, progress=False))
    gate = pathlib.Path(os.environ["GATE"], "runs")
    while not gate.exists():
        await asyncio.sleep(0.02)
    run.cancel()
    await asyncio.wait({run})
    [killed] = await ytf.aio.jobs()
    print(run.cancelled(), killed.state.value)
    job = await ytf.aio.start(task, progress=False)
    try:
        await asyncio.wait_for(job.wait(progress=False), 0.1)
    except asyncio.TimeoutError:
        print("still", (await job.status()).state.is_final)
    async for line in job.logs(follow=True):
        print(line.task, line.text)
        break
    kinds = []
    async for event in job.events(follow=True):
        if event.event == "task-started":
            await job.kill("enough")
        kinds.append(event.event)
    print(kinds[0], kinds[-1], (await job.wait()).status.state.value)
    print(killed.id, job.id)
asyncio.run(main())
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(30)
print(threading.active_count())
"""
    done = ytf.run("python", "-", stdin=FUNCTION + program)
    *lines, ids, threads = done.stdout.splitlines()
    assert lines == [
        "True KILLED",
        "still False",
        "worker:0 began",
        "master-started job-finished KILLED",
    ]
    assert threads == "1"
    killed, left = ids.split()
    assert done.stderr.splitlines() == [
        f"interrupted: killing job {killed} (interrupt again to leave at once)",
        f"job {killed} is killed",
        f"stopped waiting: job {left} goes on (its kill() ends it)",
    ]


def test_ctrl_c_kills_the_job_of_an_awaited_run(ytf: Ytf) -> None:
    started = ytf.start("python", "-c", FUNCTION + "asyncio.run(ytf.aio.run(task))")
    eventually((ytf.gate / "runs").exists, 60, "the function runs")
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=60)
    (job,) = ytf.home.glob("history/*")
    assert f"ytf: interrupted: killing job {job.name}" in stderr
    assert f"ytf: job {job.name} is killed" in stderr
    assert stderr.strip().endswith("KeyboardInterrupt")
    assert '"KILLED"' in (job / "record.json").read_text()


def test_experiments_run_at_the_same_time(ytf: Ytf) -> None:
    (ytf.work / "tensorflow.py").write_text(TENSORFLOW)
    (ytf.work / "example.py").write_text("""
import asyncio, os, types
import ytf
from ytf import Experiment, TaskSpec

def experiment_fn():
    import tensorflow
    return Experiment("linear", "fine", types.SimpleNamespace(hooks=()))

async def main():
    specs = {"chief": TaskSpec(memory=300, vcores=1)}
    env = {"SEEN": os.environ["GATE"]}
    runs = (ytf.aio.run_on_yarn(experiment_fn, specs, env=env) for _ in range(2))
    for metrics in await asyncio.gather(*runs):
        print(metrics.total_training_duration is not None)

asyncio.run(main())
""")
    assert ytf.run("python", "example.py").stdout.split() == ["True", "True"]
