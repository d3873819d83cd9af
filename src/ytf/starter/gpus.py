"""Chooses the GPUs that a task may use, and keeps other tasks of the same user off them.

A container that YARN isolates sees only its own GPUs; elsewhere it sees all of
the node's. So each starter locks the GPUs it takes, by their unique names, in a
directory that all starters of the user on the node share. The kernel frees the
locks when the starter and its reaper have ended, however they end.

GPUs are found with the vendor's own command: loading NVML into a starter would
cost each of them memory, also on nodes without GPUs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence, Tuple

NVIDIA = "nvidia"
AMD = "amd"

_COMMAND = "nvidia-smi"
_COMMAND_S = 60.0
"""Without its persistence daemon, NVIDIA's driver initializes each GPU anew."""
_MORE_PATHS = ("/usr/bin", "/usr/local/nvidia/bin")
_KFD = "/sys/class/kfd/kfd/topology/nodes"


class GpuError(Exception):
    """The task cannot have its GPUs on this node."""


class Gpu:
    """One GPU: its number for programs, and a name that no other GPU has.

    ``device`` is the file through which programs use it, of AMD's; "" if not known.
    """

    __slots__ = ("device", "index", "name", "vendor")

    def __init__(self, vendor: str, index: int, name: str, device: str = "") -> None:
        self.vendor = vendor
        self.index = index
        self.name = name
        self.device = device


class TakenGpus:
    """GPUs that this process has locked, until it and its reaper have ended."""

    __slots__ = ("gpus", "locks")

    def __init__(self, gpus: Sequence[Gpu], locks: Sequence[int]) -> None:
        self.gpus = gpus
        self.locks = locks
        """Their descriptors. The reaper of a program that uses the GPUs keeps them open, too."""

    @property
    def is_amd(self) -> bool:
        """Whether they are AMD's; NVIDIA's otherwise. A node has GPUs of one vendor."""
        return self.gpus[0].vendor == AMD

    def nvml_names(self) -> List[str]:
        """Return the names by which NVIDIA's management library knows them."""
        return [] if self.is_amd else [gpu.name for gpu in self.gpus]

    def variables(self, *, alone: bool = False) -> Dict[str, str]:
        """Return the variables with which a program sees these GPUs and no other.

        ``alone``: it can reach no other, as in an engine's container. There they are
        counted from 0.
        """
        numbers = range(len(self.gpus)) if alone else [gpu.index for gpu in self.gpus]
        indices = ",".join(map(str, numbers))
        if self.is_amd:
            # Not ROCR_VISIBLE_DEVICES: the other two count what that one leaves.
            return {"CUDA_VISIBLE_DEVICES": indices, "HIP_VISIBLE_DEVICES": indices}
        # By default CUDA counts from the fastest GPU, nvidia-smi by the bus.
        return {"CUDA_VISIBLE_DEVICES": indices, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def list_gpus(path: str, visible: Optional[str]) -> List[Gpu]:
    """Return the GPUs that this process may use. Raises ``GpuError`` if the driver fails.

    The vendor's command is looked for in ``path``. ``visible`` is what
    ``CUDA_VISIBLE_DEVICES`` has left already; None: all of them.
    """
    command = _find_command(path)
    if command is None:
        return _only_visible(_amd_gpus(_KFD), visible)
    rows = _ask(command, "--query-gpu=index,uuid")
    gpus = [Gpu(NVIDIA, int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].isdigit()]
    return _only_visible(gpus, visible)


def take_gpus(count: int, directory: str, *, path: str, visible: Optional[str]) -> TakenGpus:
    """Lock ``count`` of :func:`list_gpus`, those first that no program uses, or ``GpuError``."""
    gpus = list_gpus(path, visible)
    if len(gpus) < count:
        has = "%d GPUs" % len(gpus) if len(gpus) > 1 else "one GPU" if gpus else "no GPU"
        raise GpuError("the task is to have %d, and the node has %s to give" % (count, has))
    if len(gpus) > count:
        busy = _busy(path)
        gpus.sort(key=lambda gpu: gpu.name in busy)
    taken: List[Tuple[Gpu, int]] = []
    for gpu in gpus:
        lock = _lock(directory, gpu)
        if lock is not None:
            taken.append((gpu, lock))
        if len(taken) == count:
            taken.sort(key=lambda each: each[0].index)
            return TakenGpus([gpu for gpu, _ in taken], [lock for _, lock in taken])
    for _, lock in taken:
        os.close(lock)
    raise GpuError(
        "the task is to have %d, and other tasks of this user have all but %d of the node's %d GPUs"
        % (count, len(taken), len(gpus))
    )


def _lock(directory: str, gpu: Gpu) -> Optional[int]:
    """Lock a GPU; returns the lock's descriptor, or None if another process has it."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = os.path.join(directory, gpu.name.replace("/", "_"))
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise GpuError("GPUs cannot be locked in %s: %s" % (directory, exc.strerror)) from exc
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(lock)
        if exc.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise GpuError("GPUs cannot be locked in %s: %s" % (directory, exc.strerror)) from exc
    return lock


def _find_command(path: str) -> Optional[str]:
    for directory in (*path.split(os.pathsep), *_MORE_PATHS):
        found = os.path.join(directory, _COMMAND)
        if directory and os.access(found, os.X_OK):
            return found
    return None


def _ask(command: str, query: str) -> List[List[str]]:
    """Return the rows that ``nvidia-smi`` prints for a query."""
    argv = [command, query, "--format=csv,noheader"]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise GpuError("the node's GPUs cannot be listed: %s" % exc) from exc
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        why = (said or done.stderr.decode("utf-8", "replace").strip()).split("\n")[0]
        raise GpuError("the node's GPUs cannot be listed: %s: %s" % (command, why))
    return [[word.strip() for word in line.split(",")] for line in said.splitlines()]


def _busy(path: str) -> List[str]:
    """Return the names of GPUs that programs of anyone use; [] where that is not told."""
    command = _find_command(path)
    if command is None:
        return []
    return [row[0] for row in _ask(command, "--query-compute-apps=gpu_uuid") if row]


def _amd_gpus(topology: str) -> List[Gpu]:
    """Return AMD's GPUs in the order in which its runtime counts them."""
    try:
        nodes = sorted((name for name in os.listdir(topology) if name.isdigit()), key=int)
    except OSError:
        return []
    found: List[Gpu] = []
    for node in nodes:
        properties = _properties(os.path.join(topology, node, "properties"))
        # Processors are in the list, too. They have no SIMD units.
        if properties.get("simd_count", "0") != "0":
            name = "AMD-%s" % properties.get("unique_id", node)
            minor = properties.get("drm_render_minor", "0")
            device = "" if minor == "0" else "/dev/dri/renderD%s" % minor
            found.append(Gpu(AMD, len(found), name, device))
    return found


def _properties(path: str) -> Dict[str, str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            pairs = (line.split() for line in file)
            return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    except OSError:
        # A container may be denied the others' devices.
        return {}


def _only_visible(gpus: List[Gpu], visible: Optional[str]) -> List[Gpu]:
    if visible is None:
        return gpus
    words = [word.strip() for word in visible.split(",") if word.strip()]
    return [gpu for gpu in gpus if any(_is_named(gpu, word) for word in words)]


def _is_named(gpu: Gpu, word: str) -> bool:
    """Tell whether a word of ``CUDA_VISIBLE_DEVICES`` is a GPU: its number, or how it is called."""
    return word == str(gpu.index) or (not word.isdigit() and gpu.name.startswith(word))
