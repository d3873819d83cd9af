"""The routes of a starter's control endpoint (docs/protocols.md §2).

They read the starter's state, signal the program, open a shell beside it, or pass
on a new master's address. They run in threads of the control server, beside the main one.
"""

from __future__ import annotations

import json
import os

from ytf.log import LimitedLog
from ytf.starter import program_logs
from ytf.starter.shells import TooManyShellsError
from ytf.wire.untrusted import MOST, as_int, as_text, read_int, read_json, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Callable, Dict, Mapping, Optional, Protocol

    from ytf.starter.runner import RunningProgram
    from ytf.starter.starter import Starter

    Route = Callable[["ControlRequest"], "ControlReply"]

    class ControlStream(Protocol):
        """What a connection turns into after an answer."""

        def run(self) -> None:
            """Serve the connection to its end, through a duplicate: the caller closes its own."""

        def abandon(self) -> None:
            """Give up before the beginning: the answer could not be sent."""


LONGEST_READ = 1024 * 1024
"""The most bytes of a log in one answer."""


class ControlRequest:
    """One request whose signature was valid, and the connection that it came by."""

    __slots__ = ("body", "connection", "query", "signature")

    def __init__(
        self, query: Mapping[str, str], body: bytes, signature: str, connection: socket.socket
    ) -> None:
        self.query = query
        self.body = body
        self.signature = signature
        self.connection = connection


class ControlReply:
    """An answer: bytes are sent as they are, any other value as JSON.

    ``stream`` takes over the connection once the answer is sent.
    """

    __slots__ = ("body", "headers", "status", "stream")

    def __init__(
        self,
        status: int,
        value: object,
        headers: Optional[Dict[str, str]] = None,
        stream: Optional[ControlStream] = None,
    ) -> None:
        self.status = status
        self.body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.headers = headers or {}
        self.stream = stream


class RouteError(Exception):
    """A route refuses a request: the status, and one sentence for the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def make_routes(starter: Starter) -> Dict[str, Route]:
    """Return the table of routes: ``"POST /control/v1/signal"`` → function."""

    def master(request: ControlRequest) -> ControlReply:
        value = read_json(request.body)
        starter.registry.set_master(as_text(value["url"], 300), as_int(value["attempt"]))
        return ControlReply(200, {})

    def signal(request: ControlRequest) -> ControlReply:
        number = as_int(read_json(request.body)["signal"], 1, 64)
        if not _program(starter).signal(number):
            raise RouteError(404, "no program of %s is running" % starter.config.task)
        return ControlReply(200, {})

    def list_logs(request: ControlRequest) -> ControlReply:
        config = starter.config
        if config.log_dir is None:
            return ControlReply(200, [])
        found = program_logs.list_streams(config.log_dir, config.log_prefix)
        return ControlReply(200, [dict(zip(("attempt", "stream", "size"), each)) for each in found])

    def read_log(request: ControlRequest) -> ControlReply:
        stream = request.query["stream"]
        offset = read_int(request.query.get("offset", "0"), -MOST)
        limit = min(read_int(request.query.get("limit", str(LONGEST_READ))), LONGEST_READ)
        if stream not in program_logs.STREAM_FILES:
            raise RouteError(400, "stream must be one of %s" % (program_logs.STREAM_FILES,))
        attempt = request.query.get("attempt")
        its = starter.logs if attempt is None else _logs_of(starter, read_int(attempt))
        if its is None:
            raise RouteError(404, "%s has written no logs yet" % starter.config.task)
        try:
            data, size = program_logs.read_range(its.path(stream), offset, limit)
        except OSError as exc:
            raise RouteError(404, str(exc)) from exc
        return ControlReply(200, data, {"Ytf-Size": str(size)})

    def read_stacks(request: ControlRequest) -> ControlReply:
        return ControlReply(200, _program(starter).describe_processes().encode())

    shells_opened = LimitedLog()

    def open_shell(request: ControlRequest) -> ControlReply:
        by = read_json(request.body)["by"]
        if not isinstance(by, str):
            raise ValueError("%s is not a user" % shown(by))
        program = _program(starter)
        if program.pid is None:
            raise RouteError(404, "the program of %s has not started yet" % starter.config.task)
        nonce = os.urandom(16).hex()
        key = starter.signer.stream_key(request.signature, nonce)
        try:
            shell = starter.shells.open(
                request.connection, key, starter.attempt.env, program.shell_container()
            )
        except TooManyShellsError as exc:
            raise RouteError(429, str(exc)) from exc
        except OSError as exc:
            raise RouteError(500, "no process for a shell could be started: %s" % exc) from exc
        shells_opened.write("%s opens a shell in %s" % (by[:300], starter.config.task))
        return ControlReply(200, {"nonce": nonce}, stream=shell)

    return {
        "POST /control/v1/master": master,
        "POST /control/v1/signal": signal,
        "GET /control/v1/logs": read_log,
        "GET /control/v1/streams": list_logs,
        "GET /control/v1/stacks": read_stacks,
        "POST /control/v1/shell": open_shell,
    }


def _logs_of(starter: Starter, attempt: int) -> Optional[program_logs.ProgramLogs]:
    """Return the logs of an attempt, also of one that is over: files stay with the container."""
    config = starter.config
    if config.log_dir is None:
        return None
    return program_logs.ProgramLogs(config.log_dir, attempt, config.log_limit_mb, config.log_prefix)


def _program(starter: Starter) -> RunningProgram:
    program = starter.program
    if program is None or program.exit is not None:
        raise RouteError(404, "no program of %s is running" % starter.config.task)
    return program
