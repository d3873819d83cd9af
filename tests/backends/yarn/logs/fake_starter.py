"""The control endpoint of a starter without a program, for tests that read logs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from tests.hadoop.logs.fake_node_manager import C
from ytf.specs.ids import ContainerId, NodeId, TaskId
from ytf.specs.status import StarterAddress
from ytf.starter import threads
from ytf.starter.control_routes import make_routes
from ytf.starter.control_server import ControlServer
from ytf.wire.signing import Signer

if TYPE_CHECKING:
    from ytf.starter.desired_state import InboxMessage
    from ytf.starter.starter import Starter

SECRET = b"a secret of the job"
WORKER = TaskId("worker:0")


class FakeStarter:
    """The control endpoint of a starter without a program: a test writes its logs."""

    def __init__(self, folder: Path, container: str) -> None:
        self.folder = folder
        self.container = ContainerId(container)
        self._inbox: SimpleQueue[InboxMessage] = SimpleQueue()
        self._listener = self._listen()
        self.control = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def place(self) -> StarterAddress:
        return self.place_at(self.control, self.container)

    @staticmethod
    def place_at(control: str, container: str = C) -> StarterAddress:
        return StarterAddress(
            task=WORKER, container=ContainerId(container), node=NodeId("n:1"), control=control
        )

    def _listen(self) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        config = SimpleNamespace(
            log_dir=str(self.folder), log_prefix="worker-0", log_limit_mb=512, task=WORKER
        )
        starter = cast("Starter", SimpleNamespace(config=config, logs=None))
        control = ControlServer(
            listener, Signer(SECRET), self.container, make_routes(starter), self._inbox
        )
        threads.start("control", control.run, self._inbox)
        return listener

    def end(self) -> None:
        """Listen no more. Connections that are open go on: see :meth:`ContainerLogReader.close`."""
        # Closing alone would not wake the thread that waits for callers.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def run_fake_starter(folder: Path, container: str = C) -> Iterator[FakeStarter]:
    """One that listens."""
    starter = FakeStarter(folder, container)
    try:
        yield starter
    finally:
        if starter._listener.fileno() >= 0:
            starter.end()
