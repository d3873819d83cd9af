"""The messages of ``client.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("client", globals())
