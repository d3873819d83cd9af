"""A job's logs on YARN: from starters, nodes and HDFS, each byte told once."""
