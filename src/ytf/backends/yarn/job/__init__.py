"""One submitted YARN job for clients: status, events, kill, with and without a live master."""
