"""Encrypts and authenticates the two-way stream into which a signed request can turn.

A signature covers one request and its answer. What follows on the same
connection, as for ``ytf shell``, needs protection of its own: whoever can write
into the connection must not type into the shell. Both sides derive a key from
the job's secret, the request's signature and the nonce of the answer
(``Signer.stream_key``), and then send frames::

    length (4 bytes) | kind (1 byte) and payload, encrypted | tag (16 bytes)

The n-th frame of a direction is encrypted with SHAKE256(key, n) as key stream,
and its tag is HMAC-SHA256(another key, n, length, encrypted bytes). The four
keys of a stream differ, so no frame is valid twice, elsewhere, in another place
or in the other direction. The reasons are in ADR 27.

Clients and the processes of shells load this module, starters do not: ``hashlib``
brings OpenSSL.
"""

from __future__ import annotations

import hashlib
import hmac
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

MAX_PAYLOAD = 32 * 1024
"""The most bytes in one frame."""
_LENGTH = 4
_TAG = 16

FROM_CLIENT = b"client"
FROM_STARTER = b"starter"


class ForgedFrameError(Exception):
    """A frame was not made with the key of this stream, or is not in its place."""


def keep_alive(sock: socket.socket) -> None:
    """Have Linux find out within two minutes that the other machine of a quiet stream has gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Direction:
    """The keys of one direction, and the number of the next frame."""

    def __init__(self, key: bytes, sender: bytes) -> None:
        self._encryption_key = hmac.digest(key, sender + b" encryption", "sha256")
        self._tag_key = hmac.digest(key, sender + b" tag", "sha256")
        self._number = 0

    def next_number(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(8, "big")

    def crypt(self, number: bytes, data: bytes) -> bytes:
        """Encrypt a frame, or decrypt it."""
        stream = hashlib.shake_256(self._encryption_key + number).digest(len(data))
        # One operation on two long numbers: a loop over bytes is a hundred times slower.
        mixed = int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")
        return mixed.to_bytes(len(data), "little")

    def tag(self, number: bytes, length: bytes, encrypted: bytes) -> bytes:
        return hmac.digest(self._tag_key, number + length + encrypted, "sha256")[:_TAG]


class FrameWriter:
    """Makes the frames of one sender, ``FROM_CLIENT`` or ``FROM_STARTER``."""

    def __init__(self, key: bytes, sender: bytes) -> None:
        self._direction = _Direction(key, sender)

    def frame(self, kind: int, payload: bytes = b"") -> bytes:
        """Return the next frame as it is sent. At most ``MAX_PAYLOAD`` bytes fit."""
        if len(payload) > MAX_PAYLOAD:
            raise ValueError("%d bytes do not fit one frame" % len(payload))
        number = self._direction.next_number()
        encrypted = self._direction.crypt(number, bytes((kind,)) + payload)
        length = len(encrypted).to_bytes(_LENGTH, "big")
        return length + encrypted + self._direction.tag(number, length, encrypted)


class FrameReader:
    """Takes the bytes that a sender's connection brings, and returns its frames.

    Holds no more than one frame of bytes that are not authenticated, and what came
    with them in one read.
    """

    def __init__(self, key: bytes, sender: bytes) -> None:
        self._direction = _Direction(key, sender)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes that have arrived; :meth:`next` is to be called until it has no frame."""
        self._buffer += data

    def next(self) -> Optional[Tuple[int, bytes]]:
        """Return the kind and the payload of the next frame; None if it is not whole yet.

        Raises ``ForgedFrameError``; nothing of the stream can be believed after it.
        """
        if len(self._buffer) < _LENGTH:
            return None
        head = bytes(self._buffer[:_LENGTH])
        length = int.from_bytes(head, "big")
        if not 1 <= length <= 1 + MAX_PAYLOAD:
            raise ForgedFrameError("a frame of %d bytes" % length)
        end = _LENGTH + length
        if len(self._buffer) < end + _TAG:
            return None
        encrypted, tag = bytes(self._buffer[_LENGTH:end]), bytes(self._buffer[end : end + _TAG])
        number = self._direction.next_number()
        if not hmac.compare_digest(self._direction.tag(number, head, encrypted), tag):
            raise ForgedFrameError("a frame with a wrong tag")
        del self._buffer[: end + _TAG]
        plain = self._direction.crypt(number, encrypted)
        return plain[0], plain[1:]
