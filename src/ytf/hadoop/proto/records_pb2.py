"""The messages of ``records.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.messages import bind

bind("records", globals())
