"""The messages of ``rpc.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.pool import bind

bind("rpc", globals())
