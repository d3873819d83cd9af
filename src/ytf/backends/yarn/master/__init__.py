"""What the master of a job on YARN stands on: its container, and those of the tasks."""
