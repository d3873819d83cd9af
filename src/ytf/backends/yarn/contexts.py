"""How the master and the starters are started: what their nodes are told."""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import dataclass

from ytf.backends.api import Launch
from ytf.backends.yarn.baggage import MASTER_SCRIPT, STARTER_SCRIPT, Baggage
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.security.login import USER_VARIABLE
from ytf.hadoop.security.tokens import MASTER_TOKEN
from ytf.hadoop.yarn.launch import LaunchContext
from ytf.specs.names import group_of, index_of
from ytf.starter.container import LAUNCH, SECRET_ALIAS

SECRET = SECRET_ALIAS.decode()
"""Under which the job's secret is in the credentials of its containers."""


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Makes what a NodeManager needs of what the job machine wants."""

    user: str
    secure: bool
    baggage: Baggage
    credentials: Credentials

    def master(self, staging: str) -> LaunchContext:
        """For the master of the job staged at a URL."""
        return LaunchContext(
            command=_command(MASTER_SCRIPT, f"--backend yarn --staging {shlex.quote(staging)}", ""),
            environment=self._user(),
            files=self.baggage,
            credentials=self.credentials,
        )

    def starter(self, launch: Launch) -> LaunchContext:
        """For one starter."""
        log_prefix = f"{group_of(launch.task)}-{index_of(launch.task)}"
        told = {
            "env": launch.env,
            "defaults": {**self._user(), **launch.defaults},
            "starter": {**launch.starter, "log_prefix": log_prefix},
        }
        # Nodes paste values into a shell script as they are.
        packed = base64.b64encode(json.dumps(told).encode()).decode()
        return LaunchContext(
            command=_command(STARTER_SCRIPT, "", "starter."),
            environment={LAUNCH: packed},
            files=self.baggage,
            credentials=self.credentials.without_kind(MASTER_TOKEN),
        )

    def _user(self) -> dict[str, str]:
        # Where names are believed, a node may run everyone's containers as one user of its own.
        return {} if self.secure else {USER_VARIABLE: self.user}


def _command(script: str, arguments: str, prefix: str) -> str:
    logs = f"1><LOG_DIR>/{prefix}stdout 2><LOG_DIR>/{prefix}stderr"
    return " ".join(part for part in ("exec sh", script, arguments, logs) if part)
