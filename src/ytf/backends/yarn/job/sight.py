"""One job from outside: what YARN says of it, and how much of it is ours to see."""

from __future__ import annotations

from ytf.backends.yarn.asking import ResourceManager
from ytf.backends.yarn.home import JobHome, YarnHome
from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError
from ytf.hadoop.rpc.errors import ApplicationNotFoundError
from ytf.hadoop.yarn.ids import ApplicationId
from ytf.hadoop.yarn.records import ApplicationReport, NodeReport, NodeState
from ytf.specs.names import JobId
from ytf.storage.hdfs import HdfsFiles


class Sight:
    """A job as one user sees it. Whose it is YARN tells; until it has, it counts as ours."""

    def __init__(self, rm: ResourceManager, files: HdfsFiles, job: JobId) -> None:
        self.job = job
        self.rm = rm
        self.files = files
        self.id = ApplicationId.parse(job)
        self.owner = rm.user
        self.said: ApplicationReport | None = None
        """What the ResourceManager said last."""
        self._closed: bool | None = None

    def report(self) -> ApplicationReport | None:
        """What the ResourceManager says; None if it does not know the job (any more).

        And None if it does not answer, but the job is over and recorded: then
        there is nothing that it could add.
        """
        try:
            self.said = self.rm.ask(lambda rm: rm.report(self.id))
        except ApplicationNotFoundError:
            self.said = None
        except (UnreachableError, OutcomeUnknownError):
            # What it said before is not what it says.
            self.said = None
            if not self._is_recorded():
                raise
        else:
            self.owner = self.said.user
        return self.said

    def _is_recorded(self) -> bool:
        try:
            return self.home.record() is not None
        except OSError:
            return False  # that HDFS is away, too, is not the first thing to be told

    @property
    def is_ours(self) -> bool:
        """Whether we are its owner, who records it and removes what is left of it."""
        return self.owner == self.rm.user

    @property
    def home(self) -> JobHome:
        """What it has in HDFS."""
        return YarnHome.of(self.files, self.rm.conf, self.owner).job(self.job)

    def is_closed(self) -> bool:
        """Whether it is somebody else's, who lets us see nothing of it."""
        if self.is_ours:
            return False
        if self._closed is None:
            theirs = YarnHome.of(self.files, self.rm.conf, self.owner)
            self._closed = not theirs.is_open()
        return self._closed

    def refuse_if_closed(self, what: str) -> None:
        """Raise ``RefusedError`` where it is not for us to see."""
        if self.is_closed():
            raise RefusedError(
                f"{what} of {self.job} is for {self.owner} alone to see",
                hint=f"`ytf status {self.job}` tells what YARN tells everyone",
            )

    def running_nodes(self) -> list[NodeReport]:
        """The nodes of its cluster that can run something."""
        return self.rm.ask(lambda rm: rm.nodes(NodeState.RUNNING))
