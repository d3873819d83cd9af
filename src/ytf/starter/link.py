"""Calls to the master that outlive it: repeated until some master has answered."""

from __future__ import annotations

import json
import os
import time

from ytf.starter.http import Channel, ChannelError, SignatureError
from ytf.starter.log import say
from ytf.starter.situation import CANNOT_BEGIN, REVOKED, DismissedError, Ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping, Optional

    from ytf.starter.auth import Signer
    from ytf.starter.http import Answer
    from ytf.starter.whereabouts import Whereabouts

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
SIGNATURE_PATIENCE_S = 10.0
"""How long a starter that never had a good answer puts up with signatures that do not match."""


class MootError(Exception):
    """Nobody needs an answer any more."""


class Link:
    """One actor's calls. For one thread; each thread has its own."""

    def __init__(self, whereabouts: Whereabouts, signer: Signer, actor: str) -> None:
        self._whereabouts = whereabouts
        self._signer = signer
        self._actor = actor
        self._channel: Optional[Channel] = None
        self._began = time.monotonic()
        self._was_answered = False

    def ask(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, object]] = None,
        timeout_s: float = 10.0,
        is_moot: Optional[Callable[[], bool]] = None,
    ) -> Answer:
        """A master's answer, however long that takes: 200, or 404 to a GET.

        The call may be executed more than once. Raises :class:`DismissedError`
        when the answer is that this starter is not wanted or not understood,
        and :class:`MootError` instead of trying again once ``is_moot``.
        """
        data = b"" if body is None else json.dumps(body).encode()
        wait_s = FIRST_WAIT_S
        trouble = ""
        while True:
            url = self._whereabouts.url
            try:
                answer = self._channel_to(url).call(method, path, data, timeout_s)
            except ChannelError as exc:
                text = str(exc)
                if isinstance(exc, SignatureError):
                    self._check_patience(text)
            else:
                self._was_answered = True
                self._whereabouts.heard()
                if answer.status == 200 or (answer.status == 404 and method == "GET"):
                    if trouble:
                        say("%s: answered by %s" % (path, url))
                    return answer
                text = "%s answered %d: %s" % (url, answer.status, answer.error())
                if answer.status == 409:
                    raise DismissedError(
                        Ended(REVOKED, "the master revoked this container: " + text)
                    )
                # 503, or a bug of the master's: neither is the program's fault.
                if answer.status < 500:
                    raise DismissedError(Ended(CANNOT_BEGIN, "%s: %s" % (path, text)))
            if text != trouble:
                say("%s: trying again: %s" % (path, text))
                trouble = text
            if is_moot is not None and is_moot():
                raise MootError
            self._whereabouts.reread()
            # Jitter: thousands of starters lose the same master at the same moment.
            self._whereabouts.wait(url, wait_s * (0.5 + os.urandom(1)[0] / 256))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def pause(self) -> None:
        """Wait a moment before asking for the same thing again."""
        self._whereabouts.wait(self._whereabouts.url, LONGEST_WAIT_S / 4)

    def close(self) -> None:
        """Hang up; only for the thread that calls."""
        if self._channel is not None:
            self._channel.close()

    def interrupt(self) -> None:
        """Stop waiting for an answer from a master that has been replaced. From any thread."""
        channel = self._channel
        if channel is not None:
            channel.interrupt()

    def _channel_to(self, url: str) -> Channel:
        if self._channel is None or self._channel.url != url:
            self.close()
            self._channel = Channel(url, self._signer, self._actor)
        return self._channel

    def _check_patience(self, text: str) -> None:
        # Later it may be a stranger on a dead master's port; at the very
        # beginning it is a wrong secret, and waiting does not mend that.
        if not self._was_answered and time.monotonic() - self._began > SIGNATURE_PATIENCE_S:
            raise DismissedError(Ended(CANNOT_BEGIN, text + ": is secret_file that of this job?"))
