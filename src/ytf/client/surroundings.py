"""What a program of the job finds around it at the submitter's: a task's environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ytf.backends.api import Access
from ytf.backends.local.clients import client_directory, running
from ytf.client.plan import activation
from ytf.client.uploads import Upload
from ytf.errors import SettingsError
from ytf.specs.job import CLIENT, Framework
from ytf.starter.address import own_address
from ytf.starter.config import VARIABLE, Config
from ytf.starter.environment import Identity, environment
from ytf.starter.keeper import Command
from ytf.starter.process import shell_command
from ytf.starter.situation import ClusterSpec


class Surroundings:
    """The environment of a program at the terminal, as a task's would be.

    ``folder`` is a directory of its own for what a task has in its working
    directory: the cluster spec's file, and a link to the script whose path is
    one word for a shell. ``host`` is this machine's address towards the job's
    ``master``.
    """

    def __init__(
        self, access: Access, master: str, command: str, *, index: int, folder: Path
    ) -> None:
        self._access = access
        self._folder = folder
        self._spec_file = folder / "cluster-spec.json"
        self._config = _config(access, master, command, index)
        self.host = own_address(master)
        spec = access.spec
        given = {"DTF_INPUT_PATH": spec.input, "DTF_OUTPUT_PATH": spec.output}
        self._variables = _activated(spec.environment) | spec.env
        self._variables |= {name: value for name, value in given.items() if value is not None}

    def ship(self, uploads: tuple[Upload, ...]) -> None:
        """Let ``DTF_TASK_SCRIPT`` name the script where it lies at the submitter's."""
        name = self._access.spec.script
        for upload in uploads:
            if upload.name == name:
                link = self._folder / name
                link.symlink_to(upload.source)
                self._variables["DTF_TASK_SCRIPT"] = str(link)

    def command(self, spec: ClusterSpec, attempt: int) -> Command:
        """What to run, once it is known who is where. Also writes the cluster spec's file."""
        told = {
            "generation": spec.generation,
            "revision": spec.revision,
            "members": spec.members,
        }
        with running(self._access.job):
            self._spec_file.write_text(json.dumps(told), encoding="utf-8")
        identity = Identity(
            self._config,
            attempt=attempt,
            generation=spec.generation,
            host=self.host,
            port=None,
            port_is_held=False,
            spec_file=str(self._spec_file),
        )
        inherited = dict(os.environb)
        for name, value in self._variables.items():
            inherited[os.fsencode(name)] = os.fsencode(value)
        env = environment(inherited, identity, spec.members)
        try:
            return Command(shell_command(self._config.program, env), env, None)
        except OSError as exc:
            raise SettingsError(f"the client cannot run: {exc}") from exc


def _activated(environment: str) -> dict[str, str]:
    """The variables for the environment that the tasks have, if it is one of this machine."""
    return activation(environment, os.environ) if os.path.isdir(environment) else {}


@contextmanager
def surroundings(
    access: Access, master: str, command: str, *, index: int
) -> Iterator[Surroundings]:
    """A program's surroundings, for as long as it runs."""
    with client_directory(access.job, access.folder) as folder:
        yield Surroundings(access, master, command, index=index, folder=folder)


def _config(access: Access, master: str, command: str, index: int) -> Config:
    is_tensorflow = access.spec.framework is Framework.TENSORFLOW
    starter: dict[str, object] = {
        "job": access.job,
        "container": f"{CLIENT}_{index}",
        "attempt": 1,
        "generation": 1,
        "master": master,
        "secret_file": "-",
        "port": "none",
        "variables": "tensorflow" if is_tensorflow else "none",
    }
    return Config(
        {
            "DTF_TASK_PROGRAM": command,
            "DTF_TASK_JOB_NAME": CLIENT,
            "DTF_TASK_INDEX": str(index),
            VARIABLE: json.dumps(starter),
        }
    )
