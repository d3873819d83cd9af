"""Tracks jobs in MLflow (ADR 37)."""
