"""What tests use, ours and users': waiting, the leak check, a fake RPC server."""
