"""What travels to a task, and what ytf keeps for itself: layers, runtimes, environments."""
