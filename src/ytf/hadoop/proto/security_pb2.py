"""The messages of ``security.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.pool import bind

bind("security", globals())
