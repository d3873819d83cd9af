"""Who may read the page of a YARN job, as ``AmIpFilter`` and the view ACL have it."""

from __future__ import annotations

import pytest

from ytf.backends.yarn.master.web_proxy import ProxyPageAuth, addresses_of, proxy_addresses
from ytf.hadoop.conf import Configuration
from ytf.specs.ids import JobId
from ytf.web.messages import HttpError, Request

JOB = JobId("application_1_0001")
PLAIN = {"yarn.resourcemanager.hostname": "rm.example"}
GUARDED = {**PLAIN, "yarn.acl.enable": "true", "yarn.admin.acl": "root"}
HA = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
    "yarn.resourcemanager.hostname.rm1": "127.0.0.1",
    "yarn.resourcemanager.webapp.address.rm1": "127.0.0.1:1",
    "yarn.resourcemanager.hostname.rm2": "rm2.example",
}


class World:
    """A door, and the time and names around it."""

    def __init__(self, values: dict[str, str], viewers: str = "") -> None:
        self.now = 0.0
        self.hosts = {"rm.example": ["10.0.0.1"], "rm2.example": ["10.0.0.2"]}
        self.looks = 0
        self.access = ProxyPageAuth(
            Configuration.of(values),
            job=JOB,
            owner="ann",
            viewers=viewers,
            resolve=self._resolve,
            clock=lambda: self.now,
        )

    def _resolve(self, host: str) -> list[str]:
        self.looks += 1
        return self.hosts.get(host, [])

    async def get(
        self, target: str = "/", peer: str = "10.0.0.1", user: str | None = "dr.who"
    ) -> str:
        headers = {} if user is None else {"cookie": f"other=1; proxy-user={user}"}
        request = Request("GET", target, headers)
        request.peer = peer
        return await self.access.admit(request)


async def refused(
    world: World, target: str = "/", peer: str = "10.0.0.1", user: str | None = "dr.who"
) -> HttpError:
    with pytest.raises(HttpError) as caught:
        await world.get(target, peer, user)
    return caught.value


async def test_the_proxy_is_let_in_and_everybody_may_read_where_yarn_checks_nobody() -> None:
    world = World(PLAIN)
    assert await world.get("/api/status?x=1") == "api/status"
    assert await world.get(user=None) == ""


async def test_everybody_else_is_sent_to_the_proxy() -> None:
    error = await refused(World(PLAIN), target="/tasks/ps/0/log?stream=stdout", peer="10.0.0.9")
    assert error.status == 302
    assert error.headers == (
        (
            "Location",
            "http://rm.example:8088/proxy/redirect/application_1_0001/tasks/ps/0/log?stream=stdout",
        ),
    )


async def test_where_yarn_checks_users_so_do_we() -> None:
    world = World(GUARDED, viewers="bob ")
    assert await world.get(user="ann") == ""
    assert await world.get(user="bob") == ""
    assert await world.get(user="root") == "", "an administrator"
    error = await refused(world, user="eve")
    assert error.status == 403
    assert "eve may not view application_1_0001" in str(error)
    assert (await refused(world, user=None)).status == 403
    assert (await refused(world, user="eve%00")).status == 403
    assert (await refused(world, user="ann", peer="10.0.0.9")).status == 302, "a cookie is no proof"
    assert await World(GUARDED, viewers="d.o'e x").get(user="d.o%27e") == ""


async def test_an_empty_list_of_administrators_has_nobody_and_none_has_everybody() -> None:
    nobody = World({**GUARDED, "yarn.admin.acl": ""})
    assert (await refused(nobody, user="root")).status == 403
    everybody = World({**PLAIN, "yarn.acl.enable": "true"})
    assert await everybody.get(user="eve") == "", "yarn.admin.acl is * by default"


async def test_a_host_that_moves_is_found_again() -> None:
    world = World(PLAIN)
    await world.get()
    world.hosts["rm.example"] = ["10.0.0.3"]
    await world.get()
    assert world.looks == 1
    world.now = 60.0
    assert await world.get(peer="10.0.0.3") == ""
    assert (await refused(world)).status == 302


async def test_of_two_resourcemanagers_both_may_ask_and_one_that_listens_is_named() -> None:
    world = World(HA)
    assert await world.get(peer="10.0.0.2") == ""
    error = await refused(world, peer="10.0.0.9")
    assert error.headers[0][1].startswith("http://rm2.example:8088/proxy/redirect/")


def test_where_the_proxy_is() -> None:
    own = Configuration.of({**PLAIN, "yarn.web-proxy.address": "proxy.example:9099"})
    assert [str(each) for each in proxy_addresses(own)] == ["proxy.example:9099"]
    tls = {**PLAIN, "yarn.http.policy": "HTTPS_ONLY"}
    assert [str(each) for each in proxy_addresses(Configuration.of(tls))] == ["rm.example:8090"]
    assert World(tls).access.url("http://n:1") == (
        "https://rm.example:8090/proxy/application_1_0001/"
    )


def test_the_addresses_of_a_host() -> None:
    assert "127.0.0.1" in addresses_of("localhost")
    assert "127.0.0.1" in addresses_of("0.0.0.0"), "this machine"
    assert addresses_of("no-such-host.invalid") == []
