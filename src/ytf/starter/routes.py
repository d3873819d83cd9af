"""What may be asked at the control endpoint."""

from __future__ import annotations

import json

from ytf.starter import logs
from ytf.starter.control import CannotDoError, Reply
from ytf.starter.stacks import stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional

    from ytf.starter.control import Request, Route
    from ytf.starter.process import Program
    from ytf.starter.starter import Starter

LONGEST_READ = 1024 * 1024


def routes(starter: Starter) -> Dict[str, Route]:
    """The endpoint's table. Routes run in threads of their own, beside the main one."""

    def master(request: Request) -> Reply:
        value = json.loads(request.body.decode("utf-8"))
        starter.told_of_master(str(value["url"]), int(value["attempt"]))
        return Reply(200, {})

    def signal(request: Request) -> Reply:
        number = json.loads(request.body.decode("utf-8"))["signal"]
        if not isinstance(number, int) or not 0 < number < 65:
            raise CannotDoError(400, "%r is not the number of a signal" % (number,))
        if not _program(starter).signal(number):
            raise CannotDoError(404, "no program of %s is running" % starter.config.task)
        return Reply(200, {})

    def list_logs(request: Request) -> Reply:
        config = starter.config
        found = [] if config.log_dir is None else logs.kept(config.log_dir, config.log_prefix)
        return Reply(200, [dict(zip(("attempt", "stream", "size"), each)) for each in found])

    def read_log(request: Request) -> Reply:
        stream = request.query["stream"]
        offset = int(request.query.get("offset", "0"))
        limit = min(int(request.query.get("limit", LONGEST_READ)), LONGEST_READ)
        if stream not in logs.HALVES or limit < 0:
            raise CannotDoError(
                400, "stream must be one of %s, limit not negative" % (logs.HALVES,)
            )
        attempt = request.query.get("attempt")
        its = starter.logs if attempt is None else _logs_of(starter, int(attempt))
        if its is None:
            raise CannotDoError(404, "%s has written no logs yet" % starter.config.task)
        try:
            data, size = logs.read(its.path(stream), offset, limit)
        except OSError as exc:
            raise CannotDoError(404, str(exc)) from exc
        return Reply(200, data, {"Ytf-Size": str(size)})

    def read_stacks(request: Request) -> Reply:
        return Reply(200, stacks(_program(starter).keeper).encode())

    return {
        "POST /control/v1/master": master,
        "POST /control/v1/signal": signal,
        "GET /control/v1/logs": read_log,
        "GET /control/v1/streams": list_logs,
        "GET /control/v1/stacks": read_stacks,
    }


def _logs_of(starter: Starter, attempt: int) -> Optional[logs.Logs]:
    """The logs of an attempt, which may be over: its files stay as long as the container."""
    config = starter.config
    if config.log_dir is None:
        return None
    return logs.Logs(config.log_dir, attempt, config.log_limit_mb, config.log_prefix)


def _program(starter: Starter) -> Program:
    program = starter.program
    if program is None or program.exit is not None:
        raise CannotDoError(404, "no program of %s is running" % starter.config.task)
    return program
