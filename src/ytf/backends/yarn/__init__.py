"""Runs jobs on Hadoop YARN: the job's master is the ApplicationMaster, and no JVM of ours runs."""
