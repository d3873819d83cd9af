"""From how a program ended and its last words to what its user should do.

One table, read from the top: the first row that fits gives the hint. Rows
that know a program's own message stand before those that know only a signal
or an exit code.
"""

from __future__ import annotations

import re
import signal as signals
from dataclasses import dataclass

_MORE_MEMORY = "ask for more memory with -m (--task_memory), or use less"
_OTHER_PYTHON = "choose the Python of the tasks with --env (current, or the path of an environment)"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A known end: every pattern is found in the tail, and the code and signal fit if named.

    ``hint`` may use the named groups of the patterns.
    """

    hint: str
    patterns: tuple[re.Pattern[str], ...] = ()
    exit_code: int | None = None
    signal: signals.Signals | None = None

    def match(self, exit_code: int | None, signal: int | None, tail: str) -> str | None:
        """The hint, if this is the end we know."""
        if self.exit_code is not None and exit_code != self.exit_code:
            return None
        if self.signal is not None and signal != self.signal:
            return None
        words: dict[str, str] = {}
        for pattern in self.patterns:
            found = pattern.search(tail)
            if found is None:
                return None
            words.update(found.groupdict())
        return self.hint.format_map(words)


def _text(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


_ROWS = (
    # TensorFlow's traps.
    _Row(
        patterns=_text(
            r"[/\\]keras[/\\]src[/\\]",
            r"unsupported type \(<class 'tensorflow\.python\.distribute\.values\.PerReplica'>\)"
            r"|pass this dataset to ClusterCoordinator\.create_per_worker_dataset",
        ),
        hint="Keras 3 cannot `fit` under MultiWorkerMirroredStrategy or ParameterServerStrategy: "
        "use tf_keras (import it, or set TF_USE_LEGACY_KERAS=1) or a training loop of your own",
    ),
    _Row(
        patterns=_text(r"File system scheme '(?P<scheme>[^']+)' not implemented"),
        hint="this TensorFlow cannot open {scheme}:// paths (2.21 has no HDFS, and tensorflow-io "
        "does not load on it): use a path that every node has mounted, or read and write through "
        "fsspec",
    ),
    _Row(
        patterns=_text(r"^tensorflow\.\S*TBNotInstalledError: "),
        hint="tf.summary needs the package tensorboard in the program's own environment, beside "
        "the one that serves -t: install it there, or write with tf.compat.v1.summary",
    ),
    _Row(
        patterns=_text(r"^AttributeError: module 'tensorflow[\w.]*' has no attribute 'estimator'"),
        hint="tf.estimator is gone since TensorFlow 2.16: run the program on 2.15 (--env), or "
        "move it to tf_keras or a training loop of its own",
    ),
    _Row(
        patterns=_text(
            r"^AttributeError: module 'tensorflow(\._api\.v2)?(\.\w+)*' has no attribute "
            r"'(?P<name>Server|Session|ConfigProto|placeholder|app|flags|get_variable|"
            r"global_variables_initializer|MonitoredTrainingSession|Supervisor|"
            r"replica_device_setter)'"
        ),
        hint="{name} is TensorFlow 1's: write `import tensorflow.compat.v1 as tf` and "
        "`tf.disable_v2_behavior()`, or choose a TensorFlow 1 with --env",
    ),
    # The port.
    _Row(
        patterns=_text(
            r"Could not start gRPC server|Failed to add port to server: No address added"
        ),
        hint="another process has the port that TensorFlow's server was to use",
    ),
    _Row(
        patterns=_text(r"(?i)\baddress already in use\b"),
        hint="another process has the port. Bind the one in YTF_TASK_PORT, and no fixed one; "
        "--framework tensorflow, the default, holds it for a program that binds with "
        "SO_REUSEPORT, as TensorFlow does: for others say --framework none",
    ),
    # What is not where the command looks for it.
    _Row(
        patterns=_text(r"can't open file '(?P<file>[^']+)': \[Errno 2\]"),
        hint="there is no {file}: a task begins in an empty directory; ship the program with -s "
        "(then run $DTF_TASK_SCRIPT) or --files, or name it by a path that every node has",
    ),
    _Row(
        patterns=_text(r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'"),
        hint="this Python has no module {module}: "
        + _OTHER_PYTHON
        + ", or ship your own modules with --files",
    ),
    _Row(
        patterns=_text(r"(^|[ :])(?P<python>python[0-9.]*): (command )?not found$"),
        exit_code=127,
        hint="there is no {python} on the task's PATH: " + _OTHER_PYTHON + ", or name another one",
    ),
    _Row(
        exit_code=127,
        hint="the command was not found: a task begins in an empty directory with the node's PATH; "
        "check its spelling, or ship it with -s or --files",
    ),
    _Row(
        exit_code=126,
        hint="the command was found but cannot be run: make it executable, or name its "
        "interpreter (python train.py, bash train.sh)",
    ),
    # What ran out.
    _Row(
        patterns=_text(r"No space left on device"),
        hint="a disk of the node is full: write less, or write elsewhere",
    ),
    _Row(
        patterns=_text(r"Disk quota exceeded"),
        hint="the user's disk quota is used up: write less, or write elsewhere",
    ),
    _Row(
        patterns=_text(
            r"^MemoryError\b|^numpy\.\S*MemoryError\b|std::bad_alloc|OOM when allocating tensor"
            r"|Cannot allocate memory"
        ),
        hint=f"the program could get no more memory: {_MORE_MEMORY}",
    ),
    # A signal and nothing more.
    _Row(
        signal=signals.SIGKILL,
        hint="it was killed, and not by ytf: the node may have run out of memory (its kernel log "
        f"would say so); {_MORE_MEMORY}",
    ),
    _Row(
        signal=signals.SIGILL,
        hint="the program uses instructions that the node's CPU does not have: use a build for "
        "older CPUs, or other nodes",
    ),
    _Row(
        signal=signals.SIGBUS,
        hint="a mapped file was cut short or shared memory is full: look at the node's disks and "
        "/dev/shm",
    ),
    _Row(
        signal=signals.SIGSEGV,
        hint="the program crashed in native code: PYTHONFAULTHANDLER=1 (--task_env) shows where",
    ),
    _Row(
        signal=signals.SIGABRT,
        hint="the program gave up in native code: its last lines on stderr tell why, else "
        "PYTHONFAULTHANDLER=1 (--task_env) shows where",
    ),
)


def diagnose(exit_code: int | None, signal: int | None, tail: str) -> str:
    """What to tell the user about a program's end, from the end of its stderr; empty: nothing.

    A shell's exit code above 128 counts as the signal that it stands for.
    """
    if exit_code == 0 and signal is None:
        return ""
    if signal is None and exit_code is not None and 128 < exit_code < 128 + signals.NSIG:
        signal = exit_code - 128
    for row in _ROWS:
        found = row.match(exit_code, signal, tail)
        if found is not None:
            return found
    return ""
