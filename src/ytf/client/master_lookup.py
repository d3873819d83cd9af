"""Finds the master of a job from outside of its containers, also after it was replaced."""

from __future__ import annotations

from ytf.backends.api import JobCredentials, JobHandle, MasterAddress, Notify
from ytf.client.status_text import is_waiting
from ytf.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from ytf.specs.status import JobStatus
from ytf.starter.desired_state import STOPPED, Shutdown, ShutdownError
from ytf.starter.master_locator import MasterLocator

_WAIT_S = 1.0


def wait_for_master(
    handle: JobHandle, credentials: JobCredentials, notify: Notify
) -> MasterAddress:
    """Return the job's master; waits while there is none, as the job may have to queue.

    ``notify`` is told why. Raises ``NotFoundError`` if the job ends before.
    """
    known: JobStatus | None = None
    while (master := credentials.find_master()) is None:
        status = handle.wait(known, timeout_s=_WAIT_S)
        if is_waiting(status) and status.diagnostics not in ("", known and known.diagnostics):
            notify(status.diagnostics)
        known = status
    return master


class ClientMasterLocator(MasterLocator):
    """A locator that asks the backend where the master is.

    A client has no control endpoint, so no master introduces itself to it.
    Once the locator is closed, or the job is over, the threads that call the
    master end.
    """

    def __init__(self, credentials: JobCredentials, master: MasterAddress) -> None:
        super().__init__(master.url, None)
        self._credentials = credentials
        self._closed = False

    @property
    def url(self) -> str:
        """``http://host:port`` of the newest master known; ``ShutdownError`` once closed."""
        if self._closed:
            raise ShutdownError(Shutdown(STOPPED, "the client has ended"))
        return super().url

    def refresh(self) -> None:
        """Ask the backend where the master is now; ``ShutdownError`` if the job is over."""
        try:
            master = self._credentials.find_master()
        except NotFoundError as error:
            raise ShutdownError(Shutdown(STOPPED, str(error))) from error
        except (UnreachableError, OutcomeUnknownError):
            return  # asked again after the next call that fails
        if master is not None:
            self.update(master.url, master.attempt)

    def close(self) -> None:
        """Let no thread call the master any more."""
        self._closed = True
