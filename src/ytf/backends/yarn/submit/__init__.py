"""Submits a job to YARN: checks, uploads, the application; on failure nothing is left behind."""
