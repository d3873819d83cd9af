"""Bringing a job to YARN: what fits, what travels, and all of it or nothing."""
