"""The local backend: runs jobs on this machine, without Hadoop.

``backend`` and ``job_handle`` are the client's side, ``context`` and
``container_backend`` the master's. One node process per job (package ``node``)
does what a NodeManager does for a cluster: it runs the master and the
containers. docs/protocols.md §4 and §5 describe its messages and the files.
"""
