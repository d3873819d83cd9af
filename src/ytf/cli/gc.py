"""``ytf gc``: what nobody needs any more is removed, and told."""

from __future__ import annotations

import sys

from ytf.cli import tables
from ytf.cli.streams import say
from ytf.client import backends, settings

_UNITS = ("B", "kB", "MB", "GB", "TB")


def gc(*, backend: str | None, dryrun: bool, verify: bool) -> int:
    """Collect what is left on this machine and, if that is where jobs go, at the cluster.

    A line on stdout for each thing that was removed, or with ``dryrun`` would be.
    """
    given = settings.load({"backend": backend})
    keep_s = settings.history_s(given)
    choice = settings.choose_backend(given)
    say(f"ytf: backend {choice.name} ({choice.reason})")
    count = size = 0
    # What is here first: a cluster may not answer.
    for name in dict.fromkeys(("local", choice.name)):
        gone = backends.backend(name).collect(
            keep_s=keep_s, dryrun=dryrun, verify=verify, tell=lambda text: say(f"ytf: {text}")
        )
        if gone:
            rows = [(each.what, human(each.size), each.where) for each in gone]
            tables.show(("what", "size", "where"), rows, sys.stdout)
        count += len(gone)
        size += sum(each.size for each in gone)
    if not count:
        say("ytf: there is nothing to remove")
    else:
        things = "1 thing" if count == 1 else f"{count} things"
        say(f"ytf: {'would remove' if dryrun else 'removed'} {things}, {human(size)}")
    return 0


def human(size: int) -> str:
    """A number of bytes for eyes: ``1.3 MB``."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_UNITS[-1]}"
