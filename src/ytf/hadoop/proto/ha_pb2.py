"""The messages of ``ha.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("ha", globals())
