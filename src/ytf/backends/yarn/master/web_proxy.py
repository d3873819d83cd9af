"""Restricts a job's page to YARN's web proxy and to users who may view the job (docs/adr/0007).

Does for our masters what ``AmIpFilter`` and ``ApplicationACLsManager`` do for
masters in Java: only the proxy's host may read the page, the user that the proxy
names must be allowed to view the application, and all other requests are
redirected to the proxy.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote_plus

import msgspec

from ytf.backends.yarn.node_log_pages import uses_https_only
from ytf.hadoop.conf import Address, Configuration, RmService, parse_address, rm_addresses
from ytf.hadoop.security.acls import AccessList, groups_of
from ytf.specs.ids import JobId
from ytf.web.messages import HttpError, Request

COOKIE = "proxy-user"
_REFRESH_S = 30.0
"""How long the addresses of the proxy's hosts are cached."""
_CONNECT_S = 1.0

Resolve = Callable[[str], Iterable[str]]


class _ProxyHosts(msgspec.Struct, frozen=True):
    """The addresses of all proxies, and one proxy that listens."""

    addresses: frozenset[str]
    listening: Address


class ProxyPageAuth:
    """Implements ``PageAuth``: admits requests of the proxy for users who may view the job.

    ``viewers`` is the application's view ACL. Where ``yarn.acl.enable`` is off,
    every user may view every job, here as on all of YARN's own pages.
    """

    def __init__(
        self,
        conf: Configuration,
        *,
        job: JobId,
        owner: str,
        viewers: str = "",
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._owner = owner
        self._proxies = proxy_addresses(conf)
        self._scheme = "https" if uses_https_only(conf) else "http"
        self._checks_users = conf.get_bool("yarn.acl.enable", False)
        self._lists = [AccessList.parse(conf.get("yarn.admin.acl", "*") or "")]
        if viewers:
            self._lists.append(AccessList.parse(viewers))
        self._resolve = resolve or addresses_of
        self._clock = clock
        self._lock = asyncio.Lock()
        self._found: _ProxyHosts | None = None
        self._found_at = 0.0

    def url(self, master: str) -> str:
        """The URL of the page at the proxy."""
        return f"{self._scheme}://{self._proxies[0]}/proxy/{self._job}/"

    async def admit(self, request: Request) -> str:
        """The requested path. Raises a 302 to the proxy, or a 403 for users who may not view it."""
        found = await self._proxy_hosts()
        if request.peer not in found.addresses:
            # "/redirect" tells the proxy that a master has redirected the request. If the proxy
            # itself asked, from an address that we do not know, it detects the loop.
            place = f"{self._scheme}://{found.listening}/proxy/redirect/{self._job}{request.target}"
            raise HttpError(302, "this is read through YARN's proxy", (("Location", place),))
        if self._checks_users:
            await self._check(proxy_user(request))
        return request.path[1:]

    async def _check(self, user: str | None) -> None:
        if user is None:
            raise HttpError(403, "YARN's proxy did not say who you are: log in there first")
        if user == self._owner:
            return
        groups = await asyncio.to_thread(groups_of, user)
        if not any(each.allows(user, groups) for each in self._lists):
            raise HttpError(
                403,
                f"{user} may not view {self._job}, which is {self._owner}'s: "
                f"ask {self._owner} to name you when submitting, with --acl_view",
            )

    async def _proxy_hosts(self) -> _ProxyHosts:
        # One lookup for all requests that wait: strangers must not keep our threads busy.
        async with self._lock:
            if self._found is None or self._clock() - self._found_at > _REFRESH_S:
                self._found = await asyncio.to_thread(self._find)
                self._found_at = self._clock()
            return self._found

    def _find(self) -> _ProxyHosts:
        hosts = {proxy.host for proxy in self._proxies}
        addresses = frozenset(address for host in hosts for address in self._resolve(host))
        return _ProxyHosts(addresses, _first_that_listens(self._proxies))


def proxy_addresses(conf: Configuration) -> Sequence[Address]:
    """The addresses of the web proxy: a server of its own, else each ResourceManager.

    Mirrors ``WebAppUtils.getProxyHostsAndPortsForAmFilter``.
    """
    own = conf.get_trimmed("yarn.web-proxy.address")
    if own:
        return [parse_address(own, 9099)]
    return rm_addresses(conf, RmService.WEB_TLS if uses_https_only(conf) else RmService.WEB)


def proxy_user(request: Request) -> str | None:
    """The user in whose name the proxy asks; None if it names none that can exist."""
    for cookie in request.headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE and value:
            user = unquote_plus(value)
            return user if user.isprintable() else None
    return None


def addresses_of(host: str) -> list[str]:
    """A host's addresses; none if it is not known. ``0.0.0.0`` means this machine.

    A cluster of one machine may be configured so (``yarn.resourcemanager.hostname``
    is ``0.0.0.0`` by default); its proxy then connects from the machine's own name.
    """
    names = [socket.gethostname(), "localhost"] if host in ("0.0.0.0", "::") else [host]
    found: list[str] = []
    for name in names:
        try:
            entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError:
            continue
        found += [str(entry[4][0]) for entry in entries]
    return found


def _first_that_listens(proxies: Sequence[Address]) -> Address:
    """The first proxy that can be reached. That of a standby ResourceManager redirects."""
    for proxy in proxies[:-1]:
        try:
            socket.create_connection((proxy.host, proxy.port), _CONNECT_S).close()
        except OSError:
            continue
        return proxy
    return proxies[-1]
