"""Keeps a directory of a task in sync with a directory of HDFS (ADR 32).

``snapshot`` decides what belongs together, ``store`` keeps it in HDFS, ``local_directory``
reads and replaces the local files, ``engine`` connects them, and ``__main__`` is the helper
process that a starter runs beside the program.
"""
