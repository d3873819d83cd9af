"""A method of our own for tests: it answers with the priority it was given."""

from __future__ import annotations

from tests.hadoop.rpc.server import Received
from ytf.hadoop.proto.records_pb2 import Priority
from ytf.hadoop.rpc.connection import Method, RpcSettings
from ytf.hadoop.security.login import Login

PROTOCOL = "test.EchoProtocol"
ECHO = Method("echo", Priority, Priority, True)
ONCE = Method("echo", Priority, Priority, False)
ALICE = Login(user="alice")
PATIENT = RpcSettings(connect_timeout_s=60.0, call_timeout_s=60.0)


async def answer(call: Received) -> Priority:
    """What was asked."""
    return Priority.FromString(call.request)


def number(value: int) -> Priority:
    """A request."""
    return Priority(priority=value)
