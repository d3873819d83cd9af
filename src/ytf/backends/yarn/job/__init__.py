"""A job on YARN as its users see it, with a master and without."""
