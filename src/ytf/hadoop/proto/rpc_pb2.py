"""The messages of ``rpc.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("rpc", globals())
