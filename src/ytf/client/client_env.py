"""Makes the environment of a program at the submitter's terminal: that of a task of the job.

For ``ytf-submit --client`` and ``ytf attach``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ytf.backends.api import JobCredentials, Notify, Upload
from ytf.backends.local.client_directories import client_directory, not_found_if_ended
from ytf.client.plan import activation
from ytf.errors import SettingsError
from ytf.frameworks.api import TaskContext, by_name
from ytf.hadoop.conf import Configuration
from ytf.packaging.hdfs_plugin import find_plugin
from ytf.specs.job import CLIENT, Framework
from ytf.starter.desired_state import ReceivedClusterSpec
from ytf.starter.hdfs_variables import conf_variables, find_tensorflow_io, plugin_variables
from ytf.starter.libhdfs import LibhdfsError, libhdfs_variables
from ytf.starter.native_runner import shell_command
from ytf.starter.program_env import ClusterSpecFile, program_environment, with_variables
from ytf.starter.reaper import ProgramCommand
from ytf.wire.address import own_address


class ClientEnv:
    """The environment of one program at the terminal, as a task's would be.

    ``folder`` is a directory for this program alone. It holds what a task has
    in its working directory: the cluster spec's file, and a link to the script
    whose path is one word for a shell. ``host`` is this machine's address
    towards the job's ``master``. Of a job of another user neither ``env`` nor
    ``task_env`` is used, as they choose what runs (``PATH``, ``BASH_ENV`` …).
    """

    def __init__(
        self,
        credentials: JobCredentials,
        master: str,
        command: str,
        *,
        index: int,
        folder: Path,
        prepare: Callable[[], None] | None,
    ) -> None:
        self._prepare = prepare
        self._credentials = credentials
        self._command = command
        self._index = index
        self._folder = folder
        self._spec_file = ClusterSpecFile(str(folder / "cluster-spec.json"))
        self.host = own_address(master)
        spec = credentials.spec
        given = {"DTF_INPUT_PATH": spec.input, "DTF_OUTPUT_PATH": spec.output}
        is_ours = credentials.owner == credentials.user
        self._variables = _activated(spec.env) | spec.task_env if is_ours else {}
        self._variables |= {name: value for name, value in given.items() if value is not None}

    def link_script(self, uploads: tuple[Upload, ...]) -> None:
        """Let ``DTF_TASK_SCRIPT`` name the script, which is on this machine."""
        name = self._credentials.spec.script
        for upload in uploads:
            if upload.name == name:
                link = self._folder / name
                link.symlink_to(upload.source)
                self._variables["DTF_TASK_SCRIPT"] = str(link)

    def command(self, spec: ReceivedClusterSpec, attempt: int) -> ProgramCommand:
        """Return what to run with a cluster spec. Also writes the spec's file.

        Raises ``NotFoundError`` if the job is over, ``SettingsError`` if this
        machine has no shell.
        """
        with not_found_if_ended(self._credentials.job):
            self._spec_file.write(spec)
        task = TaskContext(
            job=self._credentials.job,
            container=f"{CLIENT}_{self._index}",
            group=CLIENT,
            index=self._index,
            attempt=attempt,
            generation=spec.generation,
            host=self.host,
            port=None,
            port_is_held=False,
        )
        inherited = with_variables(os.environb, self._variables)
        inherited = with_variables(inherited, self._hdfs_variables(inherited))
        framework = by_name(self._credentials.spec.framework_of(CLIENT).value)
        files = {"YTF_CLUSTER_SPEC_FILE": self._spec_file.path}
        env = program_environment(inherited, framework, task, spec.members, files)
        try:
            return ProgramCommand(shell_command(self._command, env), env, None, self._prepare)
        except OSError as exc:
            raise SettingsError(f"the client cannot run: {exc}") from exc

    def _hdfs_variables(self, inherited: Mapping[bytes, bytes]) -> dict[str, str]:
        """Return what a program needs to open ``hdfs://``, with what this machine has."""
        spec = self._credentials.spec
        made = conf_variables(inherited, _hadoop_conf())
        if spec.libhdfs:
            environ = {os.fsdecode(name): os.fsdecode(value) for name, value in inherited.items()}
            try:
                made |= libhdfs_variables(environ | made)
            except LibhdfsError as exc:
                raise SettingsError(f"the client cannot run with libhdfs: {exc}") from exc
        path = os.fsdecode(inherited.get(b"PATH", b""))
        if (
            spec.hdfs_plugin
            and spec.framework_of(CLIENT) is Framework.TENSORFLOW
            and find_tensorflow_io(path) is None
        ):
            made |= plugin_variables(inherited, find_plugin())
        return made


@contextmanager
def client_env(
    credentials: JobCredentials, master: str, command: str, *, index: int, notify: Notify
) -> Iterator[ClientEnv]:
    """Make a program's environment; its directory is removed at the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(client_directory(credentials.job, credentials.folder))
        prepare = None
        if credentials.loopback_only:
            # Only then: it takes a thread and ctypes.
            from ytf.client.terminal_loopback import TerminalLoopback

            loopback = TerminalLoopback(notify)
            stack.callback(loopback.close)
            prepare = loopback.confine
        if credentials.owner != credentials.user:
            notify(
                f"{credentials.job} is a job of {credentials.owner}: the command runs with your own"
                " variables, without the job's env and task_env"
            )
        yield ClientEnv(credentials, master, command, index=index, folder=folder, prepare=prepare)


def _hadoop_conf() -> str | None:
    try:
        found = Configuration.find()
    except SettingsError:
        return None  # a program that needs no Hadoop runs all the same
    return None if found is None else str(found)


def _activated(environment: str) -> dict[str, str]:
    """Return variables for the tasks' own environment, if it is one of this machine."""
    return activation(environment, os.environ) if os.path.isdir(environment) else {}
