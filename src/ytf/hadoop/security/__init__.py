"""Who we are to a Hadoop service: users, tokens, and the files they travel in."""
