"""Programs of which we know nothing but that they want to know their peers."""

from __future__ import annotations

from ytf.frameworks.api import PortPolicy, Profile

PROFILE = Profile(
    name="none",
    # An ordinary program binds its port without SO_REUSEPORT, which fails
    # while anyone else has it.
    port=PortPolicy.RELEASE,
    variables="none",
    threads={"OMP_NUM_THREADS": 1},
)
