"""Last words as real programs said them, and what we tell their users."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ytf.frameworks.hints import exit_hint


def tail(name: str) -> str:
    """What a real program wrote last."""
    return (Path(__file__).parent / "tails" / f"{name}.txt").read_text()


KERAS_3_MIRRORED = tail("keras_3_mirrored")
KERAS_3_PARAMETER_SERVER = tail("keras_3_parameter_server")
OWN_LOOP_PARAMETER_SERVER = tail("own_loop_parameter_server")
HDFS = tail("hdfs")
OLD_TENSORFLOW = (
    "ytf: TensorFlow cannot open hdfs:// here: this TensorFlow has no TF_SetStatus (2.12 and newer "
    "have)\n"
)
# Then TensorFlow looks where LD_LIBRARY_PATH says, and may find it.
FIRST_TRY = (
    "E tensorflow/core/platform/hadoop/hadoop_file_system.cc:115] HadoopFileSystem load error: "
    "/opt/hdfs/lib/native/libhdfs.so: cannot open shared object file: No such file or directory\n"
)
GRPC_PORT = tail("grpc_port")
PYTHON_PORT = "    self.socket.bind(address)\nOSError: [Errno 98] Address already in use\n"
GO_PORT = "listen tcp :2222: bind: address already in use\n"

NO_TENSORBOARD = (
    "tensorflow.python.summary.tb_summary.TBNotInstalledError: TensorBoard is not installed, "
    "missing implementation for tf.summary.scalar\n"
)

NO_ESTIMATOR = "AttributeError: module 'tensorflow' has no attribute 'estimator'\n"
NO_SERVER = "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'Server'\n"

NO_CUDA = tail("no_cuda")


@pytest.mark.parametrize(
    ("exit_code", "tail", "words"),
    [
        pytest.param(1, KERAS_3_MIRRORED, ["Keras 3", "tf_keras"], id="keras 3, mirrored"),
        pytest.param(1, KERAS_3_PARAMETER_SERVER, ["Keras 3", "tf_keras"], id="keras 3, ps"),
        pytest.param(
            1,
            HDFS,
            ["hdfs://", "pip install ./native", "2.12", "--libhdfs", "--stage_in"],
            id="hdfs",
        ),
        pytest.param(1, OLD_TENSORFLOW + HDFS, ["too old", "--libhdfs"], id="hdfs, old tensorflow"),
        pytest.param(1, HDFS.replace("hdfs", "s3"), ["s3://", "mounted"], id="s3"),
        pytest.param(
            1,
            "tensorflow.python.framework.errors_impl.NotFoundError: libjvm.so: cannot open shared "
            "object file: No such file or directory\n",
            ["--libhdfs"],
            id="libhdfs",
        ),
        pytest.param(
            1,
            "OSError: Unable to load libhdfs: ./libhdfs.so: cannot open shared object file: "
            "No such file or directory\n",
            ["--libhdfs"],
            id="libhdfs of pyarrow",
        ),
        pytest.param(1, NO_TENSORBOARD, ["tensorboard", "compat.v1.summary"], id="summaries"),
        pytest.param(1, NO_ESTIMATOR, ["2.15"], id="estimator"),
        pytest.param(1, NO_SERVER, ["Server", "compat.v1"], id="tensorflow 1 script"),
        pytest.param(1, tail("gloo_peer"), ["ended first", "GLOO_SOCKET_IFNAME"], id="gloo peer"),
        pytest.param(1, tail("gloo_timeout"), ["in time", "all must"], id="gloo timeout"),
        pytest.param(1, tail("nccl"), ["gloo", "--task_gpus"], id="nccl"),
        pytest.param(1, tail("torch_store"), ["rank 0", "firewall"], id="torch store"),
        pytest.param(1, tail("torch_port"), ["MASTER_PORT"], id="torch port"),
        pytest.param(1, tail("torchrun_python_3_11"), ["--redirects 9:1"], id="torchrun on 3.11"),
        pytest.param(
            1,
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set\n",
            ["RANK", "--framework pytorch"],
            id="pytorch without variables",
        ),
        pytest.param(
            2,
            "train.py: error: unrecognized arguments: --local-rank=1\n",
            ["torchrun", "LOCAL_RANK"],
            id="torch.distributed.launch",
        ),
        pytest.param(
            1,
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection "
            "to the C10d store has failed. See inner exception for details.\n",
            ["agent of the first task", "--rdzv_endpoint"],
            id="c10d",
        ),
        pytest.param(
            1,
            "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory.\n",
            ["/dev/shm"],
            id="data loader",
        ),
        pytest.param(134, tail("jax_peer"), ["ended first"], id="jax peer"),
        pytest.param(134, tail("jax_timeout"), ["in time", "HTTP_PROXY"], id="jax timeout"),
        pytest.param(1, tail("jax_none"), ["--framework jax"], id="jax without variables"),
        pytest.param(1, tail("jax_late"), ["first of all"], id="jax used before"),
        pytest.param(1, tail("mpi_slots"), ["--processes", "-n"], id="mpi slots"),
        pytest.param(1, tail("mpi_root"), ["OMPI_ALLOW_RUN_AS_ROOT=1"], id="mpi as root"),
        pytest.param(1, tail("mpi_ssh"), ["ssh", "--placement pack"], id="mpi ssh"),
        pytest.param(3, tail("mpi_died"), ["ended first"], id="mpi process"),
        pytest.param(
            1,
            "RuntimeError: Wait timeout after 30 seconds for key(s): 1. You may want to increase "
            "the timeout via HOROVOD_GLOO_TIMEOUT_SECONDS\n",
            ["HOROVOD_GLOO_TIMEOUT_SECONDS", "hvd.init()"],
            id="horovod timeout",
        ),
        pytest.param(
            1,
            "ImportError: Extension horovod.torch has not been built: /x/mpi_lib_v2.so not found\n",
            ["horovod.torch", "HOROVOD_WITH_PYTORCH=1"],
            id="horovod not built",
        ),
        pytest.param(
            1,
            "horovod.common.exceptions.HorovodInternalError: [/x/third_party/gloo/gloo/transport/"
            "tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:3\n",
            ["ended first"],
            id="horovod peer",
        ),
        pytest.param(
            2,
            "python: can't open file '/x/train.py': [Errno 2] No such file or directory",
            ["/x/train.py", "-s", "--files", "empty directory"],
            id="script not shipped",
        ),
        pytest.param(
            1,
            "ModuleNotFoundError: No module named 'tensorflow'\n",
            ["tensorflow", "--env"],
            id="no module",
        ),
        pytest.param(
            127, "bash: line 1: python: command not found\n", ["python", "--env"], id="no python"
        ),
        pytest.param(127, "sh: 1: python3: not found\n", ["python3", "--env"], id="no python3, sh"),
        pytest.param(
            127, "bash: line 1: trian: command not found\n", ["not found", "PATH"], id="no command"
        ),
        pytest.param(126, "./run.sh: Permission denied\n", ["executable"], id="not executable"),
        pytest.param(1, "OSError: [Errno 28] No space left on device\n", ["full"], id="disk full"),
        pytest.param(1, "OSError: [Errno 122] Disk quota exceeded\n", ["quota"], id="quota"),
        pytest.param(1, "MemoryError\n", ["-m"], id="python memory"),
        pytest.param(
            1,
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 TiB\n",
            ["-m"],
            id="numpy memory",
        ),
        pytest.param(
            134,
            "terminate called after throwing an instance of 'std::bad_alloc'\n",
            ["-m"],
            id="c++ memory",
        ),
        pytest.param(137, "", ["killed", "memory"], id="137"),
        pytest.param(139, "", ["native code"], id="139"),
    ],
)
def test_known_ends(exit_code: int, tail: str, words: list[str]) -> None:
    found = exit_hint(exit_code, None, tail)
    for word in words:
        assert word in found


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (signal.SIGKILL, "memory"),
        (signal.SIGSEGV, "PYTHONFAULTHANDLER"),
        (signal.SIGABRT, "PYTHONFAULTHANDLER"),
        (signal.SIGILL, "CPU"),
        (signal.SIGBUS, "/dev/shm"),
    ],
)
def test_signals(number: signal.Signals, word: str) -> None:
    assert word in exit_hint(None, number, "")


@pytest.mark.parametrize("tail", [GRPC_PORT, PYTHON_PORT, GO_PORT])
def test_a_taken_port_is_seen(tail: str) -> None:
    assert "another process has the port" in exit_hint(1, None, tail)


@pytest.mark.parametrize(
    ("exit_code", "number", "tail"),
    [
        pytest.param(1, None, NO_CUDA, id="harmless words on CUDA"),
        pytest.param(1, None, OWN_LOOP_PARAMETER_SERVER, id="not Keras"),
        pytest.param(1, None, FIRST_TRY, id="libhdfs is elsewhere"),
        pytest.param(3, None, "the loss is NaN\n", id="the program's own"),
        pytest.param(None, signal.SIGTERM, "", id="asked to stop"),
        pytest.param(0, None, PYTHON_PORT, id="a success is none of ours"),
        pytest.param(None, None, "", id="nothing known"),
        pytest.param(1, None, "} {0} {name} %s\n", id="braces"),
    ],
)
def test_what_we_do_not_know_gets_no_hint(
    exit_code: int | None, number: int | None, tail: str
) -> None:
    assert exit_hint(exit_code, number, tail) == ""


def test_noise_does_not_hide_the_cause() -> None:
    found = exit_hint(1, None, NO_CUDA + "ModuleNotFoundError: No module named 'pandas'\n")
    assert "pandas" in found


def test_what_a_program_says_goes_before_how_it_was_ended() -> None:
    assert "quota" in exit_hint(None, signal.SIGABRT, "write: Disk quota exceeded")
