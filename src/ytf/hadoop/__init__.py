"""Hadoop without a JVM: configuration, RPC, tokens and YARN's three protocols.

Knows nothing of jobs, and imports nothing of ytf but its errors.
"""
