"""The messages of Hadoop RPC and YARN, as classes.

The ``.proto`` files are our own, with Hadoop's field numbers and only the
fields we use; ``scripts/protos`` compiles them. Each ``*_pb2`` module holds the
classes of one file; :mod:`ytf.hadoop.proto.wire` reads and writes them.
"""
