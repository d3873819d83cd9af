"""How the master and the starters are started: what their nodes are told."""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import dataclass, field

from ytf.backends.api import Launch
from ytf.backends.yarn.baggage import Baggage, StarterBaggage
from ytf.hadoop.security.credentials import Credentials
from ytf.hadoop.security.login import USER_VARIABLE
from ytf.hadoop.security.tokens import MASTER_TOKEN
from ytf.hadoop.yarn.launch import Access, LaunchContext
from ytf.specs.names import group_of, index_of
from ytf.starter.config import ROOM
from ytf.starter.container import LAUNCH, SCRIPT, SECRET_ALIAS

SECRET = SECRET_ALIAS.decode()
"""Under which the job's secret is in the credentials of its containers."""


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Makes what a NodeManager needs of what the job machine wants."""

    user: str
    secure: bool
    credentials: Credentials
    access: Access = field(default_factory=Access)
    """Who else may look at the job or change it: nodes ask it of the containers they start."""

    def master(self, staging: str, script: str, baggage: Baggage) -> LaunchContext:
        """For the master of the job staged at a URL."""
        # Names of users can be in both of these, and are quoted for one shell only: the
        # script's, not those that read a node's script and the command in it.
        told = [f"export {name}={shlex.quote(value)}\n" for name, value in self._user().items()]
        told.append(f"set -- --backend yarn --staging {shlex.quote(staging)}\n")
        return LaunchContext(
            command=_command("master.sh", ""),
            environment={SCRIPT: _packed("".join(told) + script)},
            files=baggage,
            credentials=self.credentials,
            access=self.access,
        )

    def starter(self, launch: Launch, baggage: StarterBaggage) -> LaunchContext:
        """For one starter."""
        group = group_of(launch.task)
        starter: dict[str, object] = {
            **launch.starter,
            "log_prefix": f"{group}-{index_of(launch.task)}",
        }
        environment = baggage.environments.get(group)
        if environment is not None:
            starter["environment"] = {
                "manifest": environment.manifest,
                "layers": environment.layers,
            }
        told = {
            "env": launch.env,
            "defaults": {**self._user(), **launch.defaults},
            "starter": starter,
        }
        return LaunchContext(
            command=_command("starter.sh", "starter."),
            environment={LAUNCH: _packed(json.dumps(told)), SCRIPT: _packed(baggage.script)},
            files=baggage.of_group(group),
            credentials=self.credentials.without_kind(MASTER_TOKEN),
            access=self.access,
        )

    def _user(self) -> dict[str, str]:
        # Where names are believed, a node may run everyone's containers as one user of its own.
        return {} if self.secure else {USER_VARIABLE: self.user}


def _packed(text: str) -> str:
    """As a variable can carry it: nodes paste values into a shell script as they are."""
    return base64.b64encode(text.encode()).decode()


def _command(script: str, prefix: str) -> str:
    """Runs the script in ``YTF_SCRIPT``.

    Were it a file of the job, nodes would have to fetch it for each job anew,
    while all else that containers of most jobs bring is in their caches.
    """
    logs = f"1><LOG_DIR>/{prefix}stdout 2><LOG_DIR>/{prefix}stderr"
    script = f"{ROOM}/{script}"
    unpack = f"echo ${SCRIPT} | base64 -d >{script}"
    return f"{unpack} && exec sh {script} {logs}"
