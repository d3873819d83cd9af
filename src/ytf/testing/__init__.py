"""What tests use, ours and users': waiting with a deadline, the leak check."""
