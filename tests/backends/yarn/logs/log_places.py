"""Places where logs lie, of a test's making: a starter's endpoint, a whole job."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from tests.hadoop_logs.nodes import C
from ytf.specs.names import ContainerId, NodeId, TaskId
from ytf.specs.status import StarterPlace
from ytf.starter import threads
from ytf.starter.auth import Signer
from ytf.starter.control import Control
from ytf.starter.routes import routes

if TYPE_CHECKING:
    from ytf.starter.situation import Message
    from ytf.starter.starter import Starter

SECRET = b"a secret of the job"
WORKER = TaskId("worker:0")


class MadeStarter:
    """The control endpoint of a starter without a program: a test writes its logs."""

    def __init__(self, folder: Path, container: str) -> None:
        self.folder = folder
        self.container = ContainerId(container)
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._listener = self._listen()
        self.control = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def place(self) -> StarterPlace:
        return self.place_at(self.control, self.container)

    @staticmethod
    def place_at(control: str, container: str = C) -> StarterPlace:
        return StarterPlace(
            task=WORKER, container=ContainerId(container), node=NodeId("n:1"), control=control
        )

    def _listen(self) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        config = SimpleNamespace(
            log_dir=str(self.folder), log_prefix="worker-0", log_limit_mb=512, task=WORKER
        )
        starter = cast("Starter", SimpleNamespace(config=config, logs=None))
        control = Control(listener, Signer(SECRET), self.container, routes(starter), self._inbox)
        threads.start("control", control.run, self._inbox)
        return listener

    def end(self) -> None:
        """Listen no more. Connections that are open go on: see :meth:`Watch.close`."""
        # Closing alone would not wake the thread that waits for callers.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def made_starter(folder: Path, container: str = C) -> Iterator[MadeStarter]:
    """One that listens."""
    starter = MadeStarter(folder, container)
    try:
        yield starter
    finally:
        if starter._listener.fileno() >= 0:
            starter.end()
