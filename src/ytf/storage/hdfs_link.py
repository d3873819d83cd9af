"""One HDFS as this process reaches it: every call ends, by a deadline if nothing else.

hdfs-native has no time-outs of its own, its blocking calls cannot be
interrupted, and its threads do not survive a fork. So all calls run on the
asynchronous client, in an event loop in a thread of its own, where one that
takes too long is cancelled for good.

A client must not be destroyed soon after a call: that waits for its threads
while it holds the interpreter's lock, and one of them may just be waiting for
the lock to say that the call is done. So clients are kept for the life of the
process and shared by all links that want the same.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from hdfs_native import AsyncClient

from ytf.errors import (
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    SettingsError,
    UnreachableError,
    YtfError,
)
from ytf.hadoop.conf import Configuration
from ytf.storage.hdfs_errors import late, translate

T = TypeVar("T")

TIMEOUT_S = 60.0
"""How long one call may take: longer than a NameNode's pause for garbage, shorter than patience."""

FAILOVER_S = 30.0
"""How long one of several NameNodes may take to become the active one."""

_DEFAULT_PORT = 8020
_PAUSE_S = 0.5
_SLACK_S = 5.0
_REST_S = 300.0


class HdfsLink:
    """A NameNode, or a nameservice of several. Safe to use from threads, and after a fork.

    ``url`` is ``hdfs://host:port/…``, ``hdfs://nameservice/…`` or ``hdfs:///…``;
    what it leaves out comes from the configuration. Who asks is
    ``HADOOP_USER_NAME``, else the operating system's user, or Kerberos.
    Nothing is connected before the first call.
    """

    def __init__(self, url: str, conf: Configuration, *, timeout_s: float = TIMEOUT_S) -> None:
        self.authority = _authority(url, conf)
        self.timeout_s = timeout_s
        self.has_standby = len(_namenodes(self.authority, conf)) > 1
        self._conf = conf
        self._first = 0
        self._answered = False
        self._silent_since: float | None = None

    def call(
        self,
        doing: str,
        function: Callable[[AsyncClient], Awaitable[T]],
        *,
        changes: bool,
        repeatable: bool = False,
    ) -> T:
        """What ``function`` makes of the client; errors come in our own words.

        ``doing`` completes "cannot …". ``changes`` says whether the call is to
        change anything: then a failure to hear the answer is an
        ``OutcomeUnknownError``, and otherwise an ``UnreachableError``. What is
        ``repeatable``, twice being the same as once, is repeated where none of
        several NameNodes is active, until none has been for ``FAILOVER_S``.
        """
        doing = f"{doing} at {self.authority}"
        while True:
            try:
                return self._call(doing, function, changes=changes)
            except (UnreachableError, OutcomeUnknownError):
                if not (repeatable and self._may_fail_over()):
                    raise
            time.sleep(_PAUSE_S)

    def _may_fail_over(self) -> bool:
        """Whether there is hope, after a failure, that another NameNode becomes active."""
        now = time.monotonic()
        self._silent_since = since = self._silent_since or now
        return self.has_standby and now < since + FAILOVER_S

    def _call(
        self, doing: str, function: Callable[[AsyncClient], Awaitable[T]], *, changes: bool
    ) -> T:
        wish = self._wish()
        try:
            result = _threads().run(wish, function, self.timeout_s)
        except (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError):
            # The connection may be dead without a word: the next call makes a
            # new one, to the next of several NameNodes.
            self._first += 1
            _threads().retire(wish)
            raise late(doing, self.timeout_s, changes=changes) from None
        except YtfError:
            raise
        except Exception as exc:
            error = translate(exc, doing, changes=changes, known=self._answered)
            if isinstance(error, (RefusedError, NotFoundError)):
                self._silent_since = None
            raise error from exc
        self._answered, self._silent_since = True, None
        return result

    def _wish(self) -> _Wish:
        settings = _settings(self.authority, self._conf, self._first)
        user = os.environ.get("HADOOP_USER_NAME", "")
        return _Wish(self.authority, user, tuple(sorted(settings.items())))


def _authority(url: str, conf: Configuration) -> str:
    parts = urlsplit(url)
    if parts.scheme == "hdfs" and not parts.netloc:
        parts = urlsplit(conf.get_trimmed("fs.defaultFS") or "")
        if parts.scheme != "hdfs" or not parts.netloc:
            raise SettingsError(
                f"{url} names no NameNode, and fs.defaultFS is "
                f"{conf.get_trimmed('fs.defaultFS') or 'not set'}",
                hint="write hdfs://host:port/…, or set fs.defaultFS in core-site.xml",
            )
    if parts.scheme != "hdfs":
        raise SettingsError(f"{url} is not an hdfs:// URL")
    authority = f"hdfs://{parts.netloc}"
    if parts.port is None and not _namenodes(authority, conf):
        return f"{authority}:{_DEFAULT_PORT}"
    return authority


def _namenodes(authority: str, conf: Configuration) -> list[str]:
    """The ids of a nameservice's NameNodes; none for the address of one."""
    parts = urlsplit(authority)
    return conf.get_list(f"dfs.ha.namenodes.{parts.hostname}") if parts.port is None else []


def _settings(authority: str, conf: Configuration, first: int) -> dict[str, str]:
    """The configuration as hdfs-native wants it, beginning with the given NameNode."""
    settings = {name: conf.get_trimmed(name) or "" for name in conf.names()}
    nameservice = urlsplit(authority).hostname
    ids = _namenodes(authority, conf)
    if ids:
        # It knows no spaces in a list, and tries them in this order.
        turn = first % len(ids)
        settings[f"dfs.ha.namenodes.{nameservice}"] = ",".join(ids[turn:] + ids[:turn])
    # An observer may answer with yesterday's listing: fencing (ADR 4) needs the
    # active NameNode's.
    settings[f"dfs.client.failover.proxy.provider.{nameservice}"] = (
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    )
    # Each NameNode once: before a second round it would sleep, and that crashes
    # the asynchronous client (0.14.7: "there is no reactor running").
    settings["dfs.client.failover.max.attempts"] = str(max(0, len(ids) - 1))
    return settings


class _Wish(NamedTuple):
    """What makes two clients the same."""

    authority: str
    user: str
    settings: tuple[tuple[str, str], ...]


class _Threads:
    """An event loop in a daemon thread, and the clients that are used in it.

    The thread's own frame holds all of it, so that nothing is destroyed when
    the process ends, nor in a child that was forked.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._clients: dict[_Wish, AsyncClient] = {}
        self._retired: list[tuple[float, AsyncClient]] = []
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, name="hdfs", daemon=True).start()

    def run(
        self, wish: _Wish, function: Callable[[AsyncClient], Awaitable[T]], timeout_s: float
    ) -> T:
        """What ``function`` makes of the client, or ``TimeoutError``."""
        client = self._client(wish)
        call = _within(function, client, timeout_s)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(timeout_s + _SLACK_S)
        finally:
            # Whoever stops waiting, by Ctrl-C for one, stops the call.
            future.cancel()

    def retire(self, wish: _Wish) -> None:
        """Use the client no more."""
        with self._lock:
            client = self._clients.pop(wish, None)
            if client is not None:
                self._retired.append((time.monotonic(), client))

    def _client(self, wish: _Wish) -> AsyncClient:
        with self._lock:
            client = self._clients.get(wish)
            if client is None:
                long_ago = time.monotonic() - _REST_S
                self._retired = [(at, old) for at, old in self._retired if at > long_ago]
                try:
                    client = AsyncClient(wish.authority, dict(wish.settings))
                except RuntimeError as exc:
                    raise SettingsError(
                        f"{wish.authority} cannot be used: {exc}",
                        hint="look at fs.defaultFS and dfs.nameservices in the configuration",
                    ) from exc
                self._clients[wish] = client
            return client

    def _serve(self) -> None:
        self._loop.run_forever()


async def _within(
    function: Callable[[AsyncClient], Awaitable[T]], client: AsyncClient, timeout_s: float
) -> T:
    return await asyncio.wait_for(function(client), timeout_s)


_current: _Threads | None = None
_current_lock = threading.Lock()


def _threads() -> _Threads:
    global _current
    with _current_lock:
        if _current is None or _current.pid != os.getpid():
            _current = _Threads()
        return _current


def _after_fork() -> None:
    """A thread of the parent may have held the lock, and is not here to release it."""
    global _current_lock
    _current_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
