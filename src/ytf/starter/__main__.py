"""``python -I -S -c …`` (see ``bootstrap``) comes here."""

from __future__ import annotations

import os
import sys

from ytf.starter.config import Config, ConfigError
from ytf.starter.log import say
from ytf.starter.situation import CANNOT_BEGIN
from ytf.starter.starter import Starter


def main() -> int:
    """Run the starter that the environment describes; its exit code (docs/protocols.md §3)."""
    try:
        starter = Starter(Config(os.environ))
    except ConfigError as exc:
        say("cannot begin: %s" % exc)
        return CANNOT_BEGIN
    return starter.run()


if __name__ == "__main__":
    sys.exit(main())
