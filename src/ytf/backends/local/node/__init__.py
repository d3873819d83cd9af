"""The node process of a local job: runs the master and the containers, like a NodeManager.

One such process runs beside every local job. So this package, and all it
imports, use the standard library only and avoid its heavy modules.
"""
