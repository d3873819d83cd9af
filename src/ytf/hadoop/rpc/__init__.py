"""Hadoop RPC, version 9, over asyncio.

Layers, each usable without the one above it::

    failover    several addresses, one of which answers
    connection  one address: handshake, many calls in flight, pings, deadlines
    sasl        what is said before the first call; digest and ciphers below it
    frames      bytes <-> headers and messages; no I/O
"""
