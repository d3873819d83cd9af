"""A Hadoop client without a JVM: configuration, RPC, tokens, YARN's protocols, container logs.

It knows nothing of jobs, and imports nothing of ytf but its errors.
"""
