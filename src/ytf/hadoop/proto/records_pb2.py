"""The messages of ``records.proto``; typed by the stub beside this file."""

from ytf.hadoop.proto.pool import bind

bind("records", globals())
