"""Jobs on Hadoop YARN: the master is its ApplicationMaster, and no JVM is ours."""
