"""Reads what a program's GPUs do, with NVIDIA's management library (NVML).

The library is loaded only if GPUs are assigned to the task. A thread of its own
calls it, because a driver in trouble answers late or never.
"""

from __future__ import annotations

import ctypes
import os
import threading

from ytf.log import log
from ytf.starter import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Callable, Dict, List, Mapping, Tuple

    from ytf.starter.desired_state import InboxMessage

LIBRARY = "libnvidia-ml.so.1"
MOST_GPUS = 64


class NvmlError(Exception):
    """NVML is not there, or refuses."""


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def visible_gpus(env: Mapping[bytes, bytes]) -> List[str]:
    """Return the GPUs that a program's variables assign to it: indices, or ids ``GPU-…``."""
    names = os.fsdecode(env.get(b"CUDA_VISIBLE_DEVICES", b"")).split(",")
    found = []
    for name in map(str.strip, names):
        # As CUDA reads it: what follows a wrong entry does not count.
        if not (name.isdigit() or name.startswith("GPU-")):
            break
        found.append(name)
    return found[:MOST_GPUS]


class NvmlGpus:
    """Some GPUs of this node. Raises :class:`NvmlError` if they cannot be read."""

    def __init__(self, names: List[str], library: str = LIBRARY) -> None:
        try:
            self._nvml = ctypes.CDLL(library)
            self._call("nvmlInit_v2")
            self._handles = [self._handle(name) for name in names]
        except (OSError, AttributeError) as exc:
            raise NvmlError(str(exc)) from exc

    def read(self) -> List[Dict[str, object]]:
        """Return for each GPU how busy it is (0 to 1), its used and its whole memory."""
        found: List[Dict[str, object]] = []
        for handle in self._handles:
            memory, busy = _Memory(), _Utilization()
            self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
            self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy))
            found.append(
                {
                    "busy": min(busy.gpu, 100) / 100,
                    "memory_bytes": memory.used,
                    "total_memory_bytes": memory.total,
                }
            )
        return found

    def _handle(self, name: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        if name.isdigit():
            index = ctypes.c_uint(int(name))
            self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        else:
            self._call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(handle))
        return handle

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._nvml, function)(*arguments)
        if code != 0:
            raise NvmlError("%s: error %d" % (function, code))


class GpuSampler:
    """Reads the GPUs again and again in a thread, until :meth:`stop`.

    ``every_s`` returns how long to wait after a reading that took so much
    processor time.
    """

    def __init__(
        self,
        names: List[str],
        every_s: Callable[[float], float],
        inbox: SimpleQueue[InboxMessage],
        cpu_clock: Callable[[], float],
    ) -> None:
        self._names = names
        self._every_s = every_s
        self._cpu_clock = cpu_clock
        self._stopped = threading.Event()
        self.latest: Tuple[Dict[str, object], ...] = ()
        threads.start("gpus", self._run, inbox)

    def stop(self) -> None:
        """Read no more."""
        self._stopped.set()

    def _run(self) -> None:
        try:
            gpus = NvmlGpus(self._names)
            while True:
                before = self._cpu_clock()
                self.latest = tuple(gpus.read())
                if self._stopped.wait(self._every_s(self._cpu_clock() - before)):
                    return
        except NvmlError as exc:
            self.latest = ()
            log("what GPUs %s do is not known: %s" % (", ".join(self._names), exc))
