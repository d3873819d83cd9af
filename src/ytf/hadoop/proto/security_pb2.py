"""The messages of ``security.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("security", globals())
