"""Makes layers of a user's environment and of ytf's own runtime, and keeps them in the layer store.

A layer is a content-addressed archive of one piece of either. ``job_layers``
is the entry point of a submission.
"""
