"""Reading one container's streams from the best place that answers.

::

    its starter ──(does not answer)──▶ its NodeManager ──(neither)──▶ a word to the user
        ▲───────────(tried again, ever more seldom)──────────┴──────────────────┘

A starter tells what was written a moment ago and needs nobody else. Its
NodeManager has the same files, also when the container has ended; after the
job they are in HDFS, and that is not this module's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ytf.backends.api import LogLine
from ytf.backends.yarn.logs.places import NodeLogs, StarterLogs
from ytf.backends.yarn.logs.streams import Readers
from ytf.errors import NotFoundError, RefusedError, UnreachableError
from ytf.specs.names import TaskId
from ytf.specs.status import StarterPlace

_SURE_S = 2.0
"""How long nobody may answer before that is told: containers end, and nodes pause."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0

Clock = Callable[[], float]
OpenStarter = Callable[[StarterPlace], StarterLogs]
"""Makes what asks a starter; nobody else needs to know with which secret."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A container, and where what it writes can be read.

    ``starter`` is None before it has registered and after its end, ``web`` (the
    NodeManager's web address) where nobody knows it. ``is_over``: the task is,
    and its starter goes any moment, before or after the master is heard to say so.
    """

    task: TaskId
    container: str
    node: str | None
    web: str | None
    starter: StarterPlace | None
    is_over: bool = False
    has_ended: bool = False


@dataclass(frozen=True)
class Said:
    """A word to the user. One of a ``kind`` is enough, if it has one."""

    text: str
    kind: str | None = None


class _Pause:
    """When somebody who did not answer may be asked again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = _FIRST_PAUSE_S
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._until

    def begin(self) -> None:
        self._until = self._clock() + self._next_s
        self._next_s = min(self._next_s * 2, _LONGEST_PAUSE_S)

    def forget(self) -> None:
        self._next_s, self._until = _FIRST_PAUSE_S, 0.0


class Watch:
    """Looks at one container, again and again. For one thread at a time.

    ``is_patient``: that nobody answers is told when it lasts; otherwise at once.
    """

    def __init__(
        self,
        source: Source,
        readers: Readers,
        open_starter: OpenStarter | None = None,
        *,
        is_patient: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        self.source = source
        """May be replaced by what is known later."""
        self.is_done = False
        """Whether nothing can come of it any more but from HDFS."""
        self.has_read = False
        """Whether a place showed all that there was."""
        self._readers = readers
        self._open_starter = open_starter
        self._sure_s = _SURE_S if is_patient else 0.0
        self._clock = clock
        self._line: tuple[StarterPlace, StarterLogs] | None = None
        self._starter_pause = _Pause(clock)
        self._node_pause = _Pause(clock)
        # Since when they do not answer, and what they do instead.
        self._starter_silent: tuple[float, str] | None = None
        self._node_silent: tuple[float, str] | None = None
        self._is_told = False

    def look(self) -> Iterator[LogLine | Said]:
        """What is new, and what is to be said of those who do not answer."""
        # As it is now, so that what is read after it is the last of a container that has ended.
        source = self.source
        if source.starter is not None and self._starter_pause.is_over:
            asked = self._clock()
            try:
                yield from self._readers.news(self._starter_logs(source.starter))
            except (NotFoundError, UnreachableError) as exc:
                self._starter_pause.begin()
                self._starter_silent = self._starter_silent or (asked, str(exc))
            else:
                self._all_is_well()
                self.has_read = True
                return
        yield from self._look_at_node(source)

    @property
    def is_node_silent(self) -> bool:
        """Whether its node did not answer, or not us, when it was last asked."""
        return self._node_silent is not None

    def close(self) -> None:
        """Close what is open."""
        if self._line is not None:
            self._line[1].close()
            self._line = None

    def _starter_logs(self, starter: StarterPlace) -> StarterLogs:
        if self._line is None or self._line[0] != starter:
            self.close()
            assert self._open_starter is not None
            self._line = starter, self._open_starter(starter)
        return self._line[1]

    def _look_at_node(self, source: Source) -> Iterator[LogLine | Said]:
        if source.web is None:
            self.is_done = source.has_ended
            if source.starter is None and not source.has_ended:
                yield Said(
                    f"the log of {source.task} on {_node(source)} cannot be read now:"
                    " the master, who knows where, does not answer",
                    kind="nobody knows where",
                )
            return
        if not self._node_pause.is_over:
            return
        asked = self._clock()
        try:
            yield from self._readers.news(NodeLogs(source.web, source.container))
        except NotFoundError:
            # It has not begun, or is forgotten; what it wrote is gathered at the job's end.
            self.is_done = source.has_ended
        except (RefusedError, UnreachableError) as exc:
            self._node_pause.begin()
            self._node_silent = self._node_silent or (asked, str(exc))
            yield from self._missing(source)
            return
        else:
            self.is_done = source.has_ended
            self.has_read = True
        self._node_pause.forget()
        self._node_silent = None
        self._is_told = False
        if source.starter is not None and not source.is_over:
            yield from self._second_best(source)

    def _all_is_well(self) -> None:
        self._starter_pause.forget()
        self._node_pause.forget()
        self._starter_silent = self._node_silent = None
        self._is_told = False

    def _lasts(self, silent: tuple[float, str] | None) -> bool:
        return silent is not None and self._clock() - silent[0] >= self._sure_s

    def _second_best(self, source: Source) -> Iterator[Said]:
        if self._starter_silent is not None and self._lasts(self._starter_silent):
            yield Said(
                f"{self._starter_silent[1]}; what {source.task} writes on {_node(source)} is read"
                " from its NodeManager, a moment later (so are others that cannot be reached"
                " from here)",
                kind="second best",
            )

    def _missing(self, source: Source) -> Iterator[Said]:
        if self._is_told or not self._lasts(self._node_silent) or self._node_silent is None:
            return
        self._is_told = True
        whys = [self._node_silent[1]]
        if self._starter_silent is not None and source.starter is not None:
            whys.insert(0, self._starter_silent[1])
        then = (
            "what was not told of it may be lost with its node"
            if source.has_ended
            else "others go on, and it is tried again"
        )
        yield Said(
            f"the log of {source.task} on {_node(source)} cannot be read:"
            f" {', and '.join(whys)}; {then}"
        )


def _node(source: Source) -> str:
    return source.node or source.web or "its node"
