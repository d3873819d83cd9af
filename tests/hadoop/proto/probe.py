"""Run by test_versions.py with other interpreters: do our messages work there?

Standard library, protobuf and ``ytf.hadoop.proto`` only. Prints protobuf's
version; any failure ends it with a traceback.
"""

from __future__ import annotations

import sys

if "tensorflow" in sys.argv:
    # Both orders of importing must work; this is the harder one.
    __import__("tensorflow")

import google.protobuf

from ytf.hadoop.proto import client_pb2, ha_pb2, master_pb2, messages, rpc_pb2, security_pb2


def check() -> None:
    """Raise AssertionError if a message does not travel as it must."""
    header = rpc_pb2.RequestHeader(kind=2, op=0, call_id=-3, client_id=b"x" * 16, retry_count=-1)
    expected = "0802100018052210" + b"x".hex() * 16 + "2801"
    assert messages.serialize(header).hex() == expected
    assert messages.parse(rpc_pb2.RequestHeader, bytes.fromhex(expected)) == header

    answer = master_pb2.AllocateResponse(response_id=3)
    container = answer.allocated.add()
    container.resource.values.add(key="yarn.io/gpu", value=2, units="", type=0)
    container.node.host = "näme"
    again = messages.parse(master_pb2.AllocateResponse, messages.serialize(answer))
    assert again == answer
    assert again.allocated[0].allocation_request_id == -1
    assert not again.HasField("command")

    context = rpc_pb2.ConnectionContext(protocol="p")
    context.user.SetInParent()
    assert messages.serialize(context) == b"\x12\x00\x1a\x01p"

    assert messages.parse(ha_pb2.ServiceStatusResponse, b"\x08\x01").state == 1
    assert messages.parse(client_pb2.GetApplicationReportResponse, b"") is not None
    for kind, data in (
        (rpc_pb2.ResponseHeader, b"\x08\x01"),
        (rpc_pb2.ResponseHeader, b"\xff\xff\xff"),
        (security_pb2.Token, b"\x0a\x7f"),
    ):
        refused = False
        try:
            messages.parse(kind, data)
        except messages.MalformedMessageError:
            refused = True
        assert refused, (kind, data)


check()
print(google.protobuf.__version__)
