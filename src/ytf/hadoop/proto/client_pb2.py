"""The messages of ``client.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.pool import bind

bind("client", globals())
