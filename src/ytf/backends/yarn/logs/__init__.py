"""Reads the tasks' logs of a YARN job: live from starters and nodes, then aggregated in HDFS."""
