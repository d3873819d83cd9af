"""Jobs on this machine, without Hadoop.

One *node* process per job (``node``) does what a NodeManager does for a
cluster: it runs the master and the containers, and outlives both. The master
speaks to it through ``containers``; the command line finds jobs again through
``jobs`` and ``handle``. docs/protocols.md §4 and §5 describe lines and files.

``node`` and what it imports use the standard library only and avoid its heavy
parts: one such process stays beside every job.
"""
