"""Amounts of what a cluster has: memory, cores, and whatever else it counts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ytf.hadoop.proto import records_pb2
from ytf.hadoop.proto.wire import text

_MEMORY, _VCORES = "memory-mb", "vcores"
_COUNTABLE = 0
_UNITS = {
    "p": 10**-12, "n": 10**-9, "u": 10**-6, "m": 10**-3, "": 1,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip
"""``UnitsConversionUtil``: the RM may tell an amount in another unit than it was asked in."""


class Resource(msgspec.Struct, frozen=True):
    """Memory in MB (YARN's: MiB), virtual cores, and other types by name: ``yarn.io/gpu``.

    Other types are counted in their smallest unit, as whole numbers.
    """

    memory_mb: int = 0
    vcores: int = 0
    others: dict[str, int] = {}

    def fits_in(self, room: Resource) -> bool:
        """Whether there is room for it, in every type."""
        return not self.excess_over(room)

    def excess_over(self, room: Resource) -> dict[str, tuple[int, int]]:
        """The types of which it is more than there is: name to (wanted, there)."""
        there = room.amounts()
        return {
            name: (wanted, there.get(name, 0))
            for name, wanted in self.amounts().items()
            if wanted > there.get(name, 0)
        }

    def amounts(self) -> dict[str, int]:
        """All of it by type, memory and cores under YARN's names for them."""
        return {_MEMORY: self.memory_mb, _VCORES: self.vcores, **self.others}

    def __hash__(self) -> int:
        return hash((self.memory_mb, self.vcores, frozenset(self.others.items())))

    def __mul__(self, times: int) -> Resource:
        others = {name: amount * times for name, amount in self.others.items()}
        return Resource(self.memory_mb * times, self.vcores * times, others)

    def __add__(self, other: Resource) -> Resource:
        names = {**self.others, **other.others}
        return Resource(
            self.memory_mb + other.memory_mb,
            self.vcores + other.vcores,
            {name: self.others.get(name, 0) + other.others.get(name, 0) for name in names},
        )

    def __sub__(self, other: Resource) -> Resource:
        return self + other * -1

    def __str__(self) -> str:
        parts = [f"{self.memory_mb} MB", f"{self.vcores} vcores"]
        parts += [f"{amount} {name}" for name, amount in self.others.items()]
        return ", ".join(parts)

    def to_message(self) -> records_pb2.Resource:
        """As it travels. Memory and cores have their own fields, which win over the map."""
        return records_pb2.Resource(
            memory_mb=self.memory_mb,
            vcores=self.vcores,
            values=[
                records_pb2.ResourceValue(key=name, value=amount, units="", type=_COUNTABLE)
                for name, amount in self.others.items()
            ],
        )

    @classmethod
    def from_message(cls, message: records_pb2.Resource) -> Resource:
        """As it came."""
        values = {text(value.key): _plain(value) for value in message.values}
        # The map repeats memory and cores in newer servers; the fields are in all.
        others = {name: n for name, n in values.items() if name not in (_MEMORY, _VCORES)}
        return cls(message.memory_mb, message.vcores, others)


class ResourceType(msgspec.Struct, frozen=True):
    """A type the cluster counts."""

    name: str
    units: str


def unknown_types(wanted: Resource, known: Mapping[str, int]) -> list[str]:
    """The types that a cluster would silently leave out of a request."""
    return [name for name in wanted.others if name not in known]


def _plain(value: records_pb2.ResourceValue) -> int:
    return int(value.value * _UNITS.get(text(value.units), 1))
