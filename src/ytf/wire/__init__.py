"""Signed HTTP between ytf's processes: signatures, a client, a reader of messages, addresses.

Starters load this package, so it is standard library only, Python 3.8, and
cheap to import.
"""
