"""The protobuf messages of Hadoop RPC and YARN.

The ``.proto`` files are our own. They have Hadoop's field numbers and only the
fields that ytf uses; ``scripts/protos`` compiles them. Each ``*_pb2`` module has
the classes of one file. :mod:`ytf.hadoop.proto.messages` makes these classes, and
encodes and decodes the messages.
"""
