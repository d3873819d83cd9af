"""Runs a starter; backends come here by ``python -I -S -c …``, see ``ytf.backends.launch``."""

from __future__ import annotations

import os
import sys

from ytf.log import log
from ytf.starter.config import ConfigError, StarterConfig
from ytf.starter.desired_state import BUG, CANNOT_BEGIN
from ytf.starter.program_env import container_environment
from ytf.starter.starter import Starter
from ytf.starter.threads import bug_text

_LAUNCH = "YTF_LAUNCH"


def main() -> int:
    """Run the starter that the environment describes; returns its exit code.

    The exit codes are in docs/protocols.md §3.
    """
    try:
        starter = Starter(_config())
    except ConfigError as exc:
        log("cannot begin: %s" % exc, last=True)
        return CANNOT_BEGIN
    except Exception as exc:
        log(bug_text(exc, "main"), last=True)
        return BUG
    return starter.run()


def _config() -> StarterConfig:
    if _LAUNCH not in os.environ:
        return StarterConfig(os.environ)
    from ytf.starter.yarn_container import unpack  # only YARN's starters need it

    inherited = unpack(container_environment())
    return StarterConfig({os.fsdecode(k): os.fsdecode(v) for k, v in inherited.items()}, inherited)


if __name__ == "__main__":
    sys.exit(main())
