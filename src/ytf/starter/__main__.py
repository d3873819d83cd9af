"""``python -I -S -c …`` (see ``bootstrap``) comes here."""

from __future__ import annotations

import os
import sys

from ytf.starter.bugs import bug_text
from ytf.starter.config import Config, ConfigError
from ytf.starter.environment import container_environment
from ytf.starter.log import say
from ytf.starter.situation import BUG, CANNOT_BEGIN
from ytf.starter.starter import Starter

_LAUNCH = "YTF_LAUNCH"


def main() -> int:
    """Run the starter that the environment describes; its exit code (docs/protocols.md §3)."""
    try:
        starter = Starter(_config())
    except ConfigError as exc:
        say("cannot begin: %s" % exc)
        return CANNOT_BEGIN
    except Exception as exc:
        say(bug_text(exc, "main"))
        return BUG
    return starter.run()


def _config() -> Config:
    if _LAUNCH not in os.environ:
        return Config(os.environ)
    from ytf.starter import container  # only YARN's starters need it

    inherited = container.unpack(container_environment())
    return Config({os.fsdecode(k): os.fsdecode(v) for k, v in inherited.items()}, inherited)


if __name__ == "__main__":
    sys.exit(main())
