"""The door of a YARN job's page: the ResourceManager's web proxy (docs/adr/0007).

What ``AmIpFilter`` and ``ApplicationACLsManager`` do for Java's masters: only
the proxy's own host may ask, the user it names must be allowed to view the
application, and everybody else is sent to the proxy.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote_plus

import msgspec

from ytf.hadoop.address import Address, parse_address
from ytf.hadoop.addresses import RmService, rm_addresses
from ytf.hadoop.conf import Configuration
from ytf.hadoop.security.acls import AccessList, groups_of
from ytf.specs.names import JobId
from ytf.web.messages import HttpError, Request

COOKIE = "proxy-user"
_REFRESH_S = 30.0
"""How long is believed what was found out about the proxy's hosts."""
_CONNECT_S = 1.0

Resolve = Callable[[str], Iterable[str]]


class _Found(msgspec.Struct, frozen=True):
    """What is known of the proxies: the addresses of all, and one that listens."""

    addresses: frozenset[str]
    listening: Address


class ProxyAccess:
    """Lets in what comes from the proxy's host for a user who may view the job.

    ``viewers`` is the application's view ACL. Where ``yarn.acl.enable`` is
    off, everybody may read everything of everybody, here as on all of YARN's
    own pages.
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
        self._scheme = "https" if is_tls(conf) else "http"
        self._checks_users = conf.get_bool("yarn.acl.enable", False)
        self._lists = [AccessList.parse(conf.get("yarn.admin.acl", "*") or "")]
        if viewers:
            self._lists.append(AccessList.parse(viewers))
        self._resolve = resolve or addresses_of
        self._clock = clock
        self._lock = asyncio.Lock()
        self._found: _Found | None = None
        self._found_at = 0.0

    def url(self, master: str) -> str:
        """The page as the proxy shows it."""
        return f"{self._scheme}://{self._proxies[0]}/proxy/{self._job}/"

    async def admit(self, request: Request) -> str:
        """What is asked for. A 302 to the proxy, or a 403, for whoever may not ask."""
        found = await self._look()
        if request.peer not in found.addresses:
            # "/redirect" tells the proxy that a master sent them: if it was the proxy itself
            # that asked, from an address we do not know, it sees the loop and ends it.
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

    async def _look(self) -> _Found:
        # One look for all who ask meanwhile: strangers must not keep our threads busy.
        async with self._lock:
            if self._found is None or self._clock() - self._found_at > _REFRESH_S:
                self._found = await asyncio.to_thread(self._find)
                self._found_at = self._clock()
            return self._found

    def _find(self) -> _Found:
        hosts = {proxy.host for proxy in self._proxies}
        addresses = frozenset(address for host in hosts for address in self._resolve(host))
        return _Found(addresses, _first_that_listens(self._proxies))


def proxy_addresses(conf: Configuration) -> Sequence[Address]:
    """Where the web proxy is: a server of its own, else within each ResourceManager.

    As ``WebAppUtils.getProxyHostsAndPortsForAmFilter`` does.
    """
    own = conf.get_trimmed("yarn.web-proxy.address")
    if own:
        return [parse_address(own, 9099)]
    return rm_addresses(conf, RmService.WEB_TLS if is_tls(conf) else RmService.WEB)


def is_tls(conf: Configuration) -> bool:
    """Whether YARN's pages, the nodes' too, are reached by https alone."""
    return conf.get_trimmed("yarn.http.policy") == "HTTPS_ONLY"


def proxy_user(request: Request) -> str | None:
    """Whom the proxy says it asks for."""
    for cookie in request.headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE and value:
            return unquote_plus(value)
    return None


def addresses_of(host: str) -> list[str]:
    """A host's addresses, none if it is not known. A host of all addresses is this one.

    A cluster of one machine may be configured so (``yarn.resourcemanager.hostname``
    is ``0.0.0.0`` by default); its proxy then asks from the machine's own name.
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
    """The first proxy that can be reached; a standby ResourceManager's sends people on."""
    for proxy in proxies[:-1]:
        try:
            socket.create_connection((proxy.host, proxy.port), _CONNECT_S).close()
        except OSError:
            continue
        return proxy
    return proxies[-1]
