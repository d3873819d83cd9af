"""No TensorFlow: workers in a ring add up their gradients, with the standard library alone.

Any program that wants a list of its peers can run on ytf. Each worker listens
on its own port of ``DTF_WORKER_HOSTS``, connects to the next one, and passes
partial sums around::

    ytf-submit --wait --framework none -r worker:3 -s ring.py 'python3 $DTF_TASK_SCRIPT'

Every worker ends with ``FINAL worker=<index> loss=<x> slope=<x> offset=<x>``, all
with the same numbers: the slope comes to 3 and the offset to 2.
"""

import errno
import operator
import os
import random
import socket
import struct
import time

STEPS, POINTS, RATE, PATIENCE_S = 200, 50, 0.2, 60.0
VECTOR = struct.Struct("!3d")


def address(text):
    """``host:port`` as a pair; an IPv6 host may stand in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def connect(peer):
    """Connect to a peer that may be a little later than we are."""
    deadline = time.monotonic() + PATIENCE_S
    link = socket.socket(socket.AF_INET6 if ":" in peer[0] else socket.AF_INET)
    while (error := link.connect_ex(peer)) == errno.ECONNREFUSED and time.monotonic() < deadline:
        time.sleep(0.02)
    if error:
        raise OSError(error, f"{os.strerror(error)}: {peer}")
    link.settimeout(PATIENCE_S)
    return link


def receive(link):
    """The next vector from the previous worker."""
    data = b""
    while len(data) < VECTOR.size:
        more = link.recv(VECTOR.size - len(data))
        if not more:
            raise ConnectionError("the previous worker is gone")
        data += more
    return VECTOR.unpack(data)


def add_up(mine, size, previous, following):
    """The sum of everyone's vector: size - 1 times, pass on what came and keep a copy."""
    total, passing = mine, mine
    for _ in range(size - 1):
        following.sendall(VECTOR.pack(*passing))
        passing = receive(previous)
        total = tuple(map(operator.add, total, passing))
    return total


def gradient(slope, offset, points):
    """The squared error of a line and its gradient, on this worker's points."""
    loss = by_slope = by_offset = 0.0
    for x, y in points:
        error = slope * x + offset - y
        loss += error * error / len(points)
        by_slope += 2 * error * x / len(points)
        by_offset += 2 * error / len(points)
    return loss, by_slope, by_offset


def main():
    index = int(os.environ["DTF_TASK_INDEX"])
    peers = [address(peer) for peer in os.environ["DTF_WORKER_HOSTS"].split(",")]
    rng = random.Random(index)
    points = [(x, 3 * x + 2) for x in (rng.uniform(-1, 1) for _ in range(POINTS))]

    host, port = peers[index]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server(("", port), family=family) as listener:
        listener.settimeout(PATIENCE_S)
        following = connect(peers[(index + 1) % len(peers)])
        previous, _ = listener.accept()
        previous.settimeout(PATIENCE_S)
    slope = offset = 0.0
    loss = float("inf")
    with previous, following:
        for step in range(1, STEPS + 1):
            parts = add_up(gradient(slope, offset, points), len(peers), previous, following)
            loss, by_slope, by_offset = (part / len(peers) for part in parts)
            slope, offset = slope - RATE * by_slope, offset - RATE * by_offset
            if index == 0 and step % (STEPS // 5) == 0:
                print(f"step {step} loss {loss:.6f}", flush=True)
    print(f"FINAL worker={index} loss={loss:.6f} slope={slope:.4f} offset={offset:.4f}")


if __name__ == "__main__":
    main()
