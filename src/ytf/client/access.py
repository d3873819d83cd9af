"""Finding the master of a job from outside of its containers, now and after it was replaced."""

from __future__ import annotations

from ytf.backends.api import Access, JobHandle, MasterAddress, Tell
from ytf.client.follow import waits
from ytf.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from ytf.specs.status import JobStatus
from ytf.starter.situation import STOPPED, DismissedError, Ended
from ytf.starter.whereabouts import Whereabouts

_LOOK_S = 1.0


def wait_for_master(handle: JobHandle, access: Access, tell: Tell) -> MasterAddress:
    """The job's master, waited for while there is none: it may have to queue.

    ``tell`` hears why. Raises ``NotFoundError`` if the job ends before.
    """
    known: JobStatus | None = None
    while (master := access.find_master()) is None:
        status = handle.wait(known, timeout_s=_LOOK_S)
        if waits(status) and status.diagnostics not in ("", known and known.diagnostics):
            tell(status.diagnostics)
        known = status
    return master


class ClientWhereabouts(Whereabouts):
    """Where the master is, asked of the backend: nobody tells a client, it has no endpoint.

    Can be closed, and then the threads that call the master end in place of
    calling on; they do as well when the job is over.
    """

    def __init__(self, access: Access, master: MasterAddress) -> None:
        super().__init__(master.url, None)
        self._access = access
        self._closed = False

    @property
    def url(self) -> str:
        """``http://host:port`` of the newest master known."""
        if self._closed:
            raise DismissedError(Ended(STOPPED, "the client has gone"))
        return super().url

    def reread(self) -> None:
        """Ask where the master is now."""
        try:
            master = self._access.find_master()
        except NotFoundError as error:
            raise DismissedError(Ended(STOPPED, str(error))) from error
        except (UnreachableError, OutcomeUnknownError):
            return  # asked again after the next call that fails
        if master is not None:
            self.told(master.url, master.attempt)

    def close(self) -> None:
        """Call nobody any more."""
        self._closed = True
