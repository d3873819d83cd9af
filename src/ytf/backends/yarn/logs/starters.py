"""Where the containers of a running job are, and who can tell what they write."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from ytf.backends import answers
from ytf.backends.api import Access
from ytf.backends.yarn.logs.places import StarterLogs
from ytf.backends.yarn.logs.watching import Source
from ytf.errors import NotFoundError, RefusedError
from ytf.specs.names import task_id
from ytf.specs.status import JobStatus, StarterPlace
from ytf.starter.auth import Signer
from ytf.starter.http import ChannelError

if TYPE_CHECKING:
    from ytf.backends.yarn.job.handle import YarnJob

_CALL_S = 2.0
"""How long a master may take: nodes have the same lines, and somebody waits for them."""
_STARTERS = msgspec.json.Decoder(list[StarterPlace])


class Starters:
    """Asks a job's masters where its starters listen; what was heard last stays known.

    For whoever may take part in the job; others hear of none.
    """

    def __init__(self, job: YarnJob) -> None:
        self._job = job
        self._access: Access | None = None
        self._known: dict[str, StarterPlace] = {}
        self._webs: dict[str, str] = {}
        self._status: JobStatus | None = None
        self.silence: str | None = None
        """What came of it when a master was last asked, and did not answer."""

    def logs_of(self, starter: StarterPlace) -> StarterLogs:
        """The logs of one of those that are known."""
        assert self._access is not None, "without it none is known"
        return StarterLogs(starter, Signer(self._access.secret))

    def sources(self, status: JobStatus) -> list[Source]:
        """The containers of the tasks, newest knowledge of each."""
        if status != self._status or self._lacks_some(status) or self._knows_ended(status):
            self._ask()
            self._status = status
        for task in status.tasks:
            # What a master has recorded, and is told while it is silent, has no addresses.
            if task.container is not None and task.log_url is not None:
                self._webs[task.container] = urlsplit(task.log_url).netloc
        return [
            Source(
                task=task_id(task.group, task.index),
                container=task.container,
                node=task.node,
                web=self._webs.get(task.container),
                starter=self._known.get(task.container),
                is_over=task.state.is_final,
                has_ended=task.state.is_final and task.container not in self._known,
            )
            for task in status.tasks
            if task.container is not None
        ]

    def _lacks_some(self, status: JobStatus) -> bool:
        """Whether a task runs whose starter is not known: no master answered when it began."""
        return any(
            task.port is not None and not task.state.is_final and task.container not in self._known
            for task in status.tasks
        )

    def _knows_ended(self, status: JobStatus) -> bool:
        """Whether a task is over whose starter was still there: no status tells when it goes."""
        return any(task.state.is_final and task.container in self._known for task in status.tasks)

    def _ask(self) -> None:
        self.silence = None
        try:
            if self._access is None:
                self._access = self._job.access()
            master = self._access.find_master()
            if master is None:
                return
            answer = answers.signed_call(
                master.url, self._access.secret, "GET", "/client/v1/starters", b"", _CALL_S
            )
        except (NotFoundError, RefusedError):
            return  # the job is over, or not for us to take part in
        except ChannelError as exc:
            self.silence = str(exc) or "it closed the connection"
            return
        if answer.status == 200:
            self._known = {each.container: each for each in _STARTERS.decode(answer.body)}
