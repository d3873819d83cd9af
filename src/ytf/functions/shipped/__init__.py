"""Programs that are shipped to a task as files and run on the user's Python, without ytf."""
