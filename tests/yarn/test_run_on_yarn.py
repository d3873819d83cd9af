"""tf-yarn's interface on YARN, with frameworks that compute nothing."""

from __future__ import annotations

import io
import tarfile

from tests.functions.framework_stubs import TENSORFLOW, TORCH
from tests.yarn.driver import Yarn
from tests.yarn.test_environments import environment, packed

EXAMPLE = """
import collections, os
import ytf
from ytf import Experiment, RunFailed, TaskSpec, run_on_yarn

EvalSpec = collections.namedtuple("EvalSpec", "hooks")

def experiment_fn():
    import tensorflow
    if os.environ.get("MODE") == "broken":
        raise ArithmeticError("the loss is not a number")
    return Experiment("linear", "fine", EvalSpec(()))

specs = {name: TaskSpec(memory=300, vcores=1) for name in ("chief", "evaluator")}
options = {"env": {"SEEN": "."}, "backend": "yarn", "name": "from tf-yarn"}
metrics = run_on_yarn(experiment_fn, specs, **options)
print(sorted(key.type for key, took in metrics.container_duration.items() if took is not None))
job = ytf.job("@last")
(evaluator,) = [task for task in job.status().tasks if task.group == "evaluator"]
print(evaluator.usage.metrics["last_training_step"])
print(job.id)
try:
    run_on_yarn(experiment_fn, specs, **{**options, "env": {"MODE": "broken"}})
except RunFailed as error:
    print(repr(error.__cause__), bool(error.node))
    print(ytf.job("@last").id)
"""


def test_a_program_of_tf_yarn_runs_with_another_import(yarn: Yarn) -> None:
    (yarn.work / "tensorflow.py").write_text(TENSORFLOW)
    (yarn.work / "example.py").write_text(EXAMPLE)
    done = yarn.run("python", "example.py", timeout_s=300)
    groups, step, first, raised, second = done.stdout.splitlines()
    assert groups == "['chief', 'evaluator']"
    assert step == "40.0"
    assert raised == "ArithmeticError('the loss is not a number') True"
    for job in (first, second):
        yarn.nothing_is_left(job)


IN_HDFS = """
import sys
import ytf
from ytf import NodeLabel, TaskSpec, run_on_yarn, upload_env

def experiment_fn():
    import own, sys
    raise ArithmeticError(f"{own.ANSWER} in {sys.prefix.rpartition('/')[2]}")

url = sys.argv[1]
path, name = upload_env(url)
print(name, path == upload_env(url)[0])
for environment in (url, {NodeLabel.CPU: url}):
    try:
        run_on_yarn(environment, experiment_fn, {"chief": TaskSpec(300, 1)}, backend="yarn")
    except ytf.RunFailed as error:
        print(repr(error.__cause__))
    print(ytf.job("@last").id)
"""


def test_an_environment_in_hdfs_as_cluster_pack_has_put_it_there(yarn: Yarn) -> None:
    root = f"/user/{yarn.name}/envs of tf-yarn"
    yarn.files.mkdir(root)
    yarn.files.write(f"{root}/env.tar.gz", [packed(environment(yarn.work / "env"))])
    (yarn.work / "example.py").write_text(IN_HDFS)
    url = f"hdfs://{root}/env.tar.gz"
    done = yarn.run("python", "example.py", url, timeout_s=300)
    told = done.stdout.splitlines()
    assert told[0] == "env.tar.gz True"
    assert told[1::2] == ["ArithmeticError('42 in environment')"] * 2
    for job in told[2::2]:
        yarn.nothing_is_left(job)
    yarn.files.delete(root)


PYTORCH = """
import sys
from ytf import PytorchExperiment, TaskSpec, run_on_yarn

def train(model, batches, device, rank, writer):
    with open("cuda/lib 64/libcuda.txt") as file:
        writer.add_scalar("cuda", file.read())
    writer.add_hparams({"rate": 0.1}, {})

summaries = sys.argv[2]

def experiment_fn():
    import torch
    return PytorchExperiment(torch.Model(), train, [], tensorboard_hdfs_dir=summaries)

run_on_yarn(
    experiment_fn,
    {"worker": TaskSpec(300, 1)},
    cuda_runtime_hdfs_path=sys.argv[1],
    env={"LD_LIBRARY_PATH": "cuda/lib 64"},
    custom_task_module="tf_yarn.pytorch.tasks.worker",
    backend="yarn",
)
import ytf
print(ytf.job("@last").id)
"""


def test_cuda_comes_from_hdfs_and_summaries_go_there(yarn: Yarn) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("lib 64/libcuda.txt")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"11.2"))
    root = f"/user/{yarn.name}/from tf-yarn"
    yarn.files.mkdir(root)
    yarn.files.write(f"{root}/cuda's.tar.gz", [packed.getvalue()], 0o644)
    (yarn.work / "torch.py").write_text(TORCH)
    (yarn.work / "example.py").write_text(PYTORCH)
    url = f"{yarn.cluster.hdfs_url}{root}"
    for _ in range(2):  # the second one replaces what the first one has left
        argv = ("python", "example.py", f"{url}/cuda's.tar.gz", f"{url}/50%20#1?/")
        done = yarn.run(*argv, timeout_s=300)
        yarn.nothing_is_left(done.stdout.strip())
        for name, content in (("events", b"cuda=11.2"), ("1/events", b"rate=0.1")):
            written = yarn.files.read(f"{root}/50%20#1?/worker0/{name}")
            assert b"".join(written) == content
    yarn.files.delete(root)
