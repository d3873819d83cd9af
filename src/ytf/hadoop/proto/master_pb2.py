"""The messages of ``master.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("master", globals())
