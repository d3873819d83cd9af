"""The messages of ``ids.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.pool import bind

bind("ids", globals())
