"""Hadoop RPC, version 9, over asyncio.

Layers, each usable without the one above it::

    client      a service with several addresses, one of which answers
    connection  one address: handshake, concurrent calls, pings, timeouts
    sasl        the authentication before the first call; digest_md5 and ciphers below it
    frames      bytes <-> headers and messages; no I/O
"""
