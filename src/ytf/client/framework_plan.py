"""Decides the framework of each task group at submission."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ytf.backends.api import Upload
from ytf.client.framework_detection import Finding, find_framework
from ytf.errors import SpecError
from ytf.frameworks.api import by_name
from ytf.specs.job import DockerRuntime, Framework, JobSpec, TaskGroupSpec, is_url


class PlannedFrameworks:
    """The frameworks of a job's groups and of its client, found where the spec says ``auto``.

    ``notes`` tell of those that were found and differ from the default.
    """

    def __init__(self, spec: JobSpec, uploads: Sequence[Upload]) -> None:
        self._spec = spec
        self._sources = _sources(spec, uploads)
        # Each once, in their order.
        self._findings: dict[Finding, None] = {}
        self.of_client: Framework = self._of_command(
            spec.framework, spec.client_command or spec.command
        )

    def of_group(self, group: TaskGroupSpec) -> Framework | None:
        """The framework of a group; None if it is the job's."""
        asked = group.framework or self._spec.framework
        found = self._of_command(asked, group.command or self._spec.command)
        return None if group.framework is None and found is self.of_client else found

    def _of_command(self, asked: Framework, command: str | None) -> Framework:
        if asked not in (Framework.AUTO, Framework.PYTORCH):
            return asked
        usual = Framework.TENSORFLOW if asked is Framework.AUTO else asked
        if command is None or self._spec.servers:
            return usual
        found = find_framework(command, self._sources)
        # torchrun is PyTorch too, but without its own variables each would run alone.
        if found is None or (
            asked is not Framework.AUTO and found.framework is not Framework.TORCHRUN
        ):
            return usual
        self._findings[found] = None
        return found.framework

    @property
    def notes(self) -> list[str]:
        """Sentences about what was found."""
        return [
            f"the framework is {finding.framework.value}, as {finding.because}; "
            "name another one with --framework"
            for finding in self._findings
            if finding.framework is not Framework.TENSORFLOW
        ]


def _sources(spec: JobSpec, uploads: Sequence[Upload]) -> dict[str, str]:
    """The shipped files of this machine, by the names that a command may use for them."""
    local = {upload.name: upload.source for upload in uploads if not is_url(upload.source)}
    if spec.script is not None and (source := local.get(os.path.basename(spec.script))):
        script = {"$DTF_TASK_SCRIPT": source, "${DTF_TASK_SCRIPT}": source}
        return script | local
    return local


def check_processes(spec: JobSpec) -> None:
    """Raise ``SpecError`` for a group with several processes in a task that can have only one."""
    for name, group in spec.groups.items():
        if group.processes == 1:
            continue
        framework = spec.framework_of(name)
        profile = by_name(framework.value)
        if not profile.several_processes:
            raise SpecError(
                f"a {framework.value} task is one process, not {group.processes}",
                where=f"groups.{name}.processes",
                hint="ask for more tasks (-r), or name another framework (--framework)",
            )
        by_starter = spec.docker.runtime is DockerRuntime.STARTER
        if spec.docker_image_of(name) and by_starter and not profile.starts_processes:
            raise SpecError(
                f"{name} runs in a docker image, in which ytf starts one process, not "
                f"{group.processes}",
                where=f"groups.{name}.processes",
                hint="have torchrun start them (--framework torchrun), or ask for more tasks (-r)",
            )
