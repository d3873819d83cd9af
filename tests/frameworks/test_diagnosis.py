"""Last words as real programs said them, and what we tell their users."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ytf.frameworks.diagnosis import diagnose


def tail(name: str) -> str:
    """What a real program wrote last."""
    return (Path(__file__).parent / "tails" / f"{name}.txt").read_text()


KERAS_3_MIRRORED = tail("keras_3_mirrored")
KERAS_3_PARAMETER_SERVER = tail("keras_3_parameter_server")
OWN_LOOP_PARAMETER_SERVER = tail("own_loop_parameter_server")
HDFS = tail("hdfs")
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
        pytest.param(1, HDFS, ["hdfs://", "mounted"], id="hdfs"),
        pytest.param(1, NO_TENSORBOARD, ["tensorboard", "compat.v1.summary"], id="summaries"),
        pytest.param(1, NO_ESTIMATOR, ["2.15"], id="estimator"),
        pytest.param(1, NO_SERVER, ["Server", "compat.v1"], id="tensorflow 1 script"),
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
    found = diagnose(exit_code, None, tail)
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
    assert word in diagnose(None, number, "")


@pytest.mark.parametrize("tail", [GRPC_PORT, PYTHON_PORT, GO_PORT])
def test_a_taken_port_is_seen(tail: str) -> None:
    assert "another process has the port" in diagnose(1, None, tail)


@pytest.mark.parametrize(
    ("exit_code", "number", "tail"),
    [
        pytest.param(1, None, NO_CUDA, id="harmless words on CUDA"),
        pytest.param(1, None, OWN_LOOP_PARAMETER_SERVER, id="not Keras"),
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
    assert diagnose(exit_code, number, tail) == ""


def test_noise_does_not_hide_the_cause() -> None:
    found = diagnose(1, None, NO_CUDA + "ModuleNotFoundError: No module named 'pandas'\n")
    assert "pandas" in found


def test_what_a_program_says_goes_before_how_it_was_ended() -> None:
    assert "quota" in diagnose(None, signal.SIGABRT, "write: Disk quota exceeded")
