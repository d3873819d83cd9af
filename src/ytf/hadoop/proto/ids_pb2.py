"""The messages of ``ids.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("ids", globals())
