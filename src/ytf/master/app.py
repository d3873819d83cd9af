"""The master's composition root: command line, backend, journal, HTTP server, registry, job.

One process is one attempt of the master. It runs until the job has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
from pathlib import Path

from ytf.backends.api import MasterContext
from ytf.errors import RefusedError, YtfError
from ytf.journal.writer import FencedError, Journal, JournalError
from ytf.log import LimitedLog, log
from ytf.master.last_output import MAX_TASKS
from ytf.master.service import Master
from ytf.master.starter_client import announce_master
from ytf.registry.api import Registry
from ytf.registry.rest import RestRegistry
from ytf.specs.amounts import parse_ports
from ytf.specs.registry import REST, instance_path, kind_of, parse_address
from ytf.starter.orphans import EVERY_S, kill_orphans
from ytf.starter.program_logs import STREAMS
from ytf.web.client_api import ClientApi
from ytf.web.log_tails import LogTails
from ytf.web.page_api import PageApi
from ytf.web.request_auth import RequestVerifier
from ytf.web.server import HttpServer
from ytf.wire.address import join_address
from ytf.wire.bind import listen
from ytf.wire.signing import Signer


def main(argv: list[str] | None = None) -> int:
    """Run a master. Returns 0 when the job has ended, 3 when another master has taken over."""
    options = _options(argv)
    logging.basicConfig(
        level=logging.WARNING, format="%(name)s: %(message)s", handlers=[_LogHandler()]
    )
    ready = _Ready.of(os.environ.pop("YTF_READY_FD", None))
    try:
        asyncio.run(_run(options, ready))
    except FencedError as error:
        log(f"{error}", last=True)
        return 3
    except YtfError as error:
        log(f"{error}", last=True)
        ready.send(f"failed: {error}")
        return 1
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ytf.master", allow_abbrev=False)
    parser.add_argument("--backend", choices=["local", "yarn"], required=True)
    local = parser.add_argument_group("local")
    local.add_argument("--job-dir", type=Path)
    local.add_argument("--attempt", type=int)
    local.add_argument("--finalize", metavar="REASON")
    yarn = parser.add_argument_group("yarn")
    yarn.add_argument("--staging", metavar="URL")
    options = parser.parse_args(argv)
    if options.backend == "local" and (options.job_dir is None or options.attempt is None):
        parser.error("--backend local needs --job-dir and --attempt")
    if options.backend == "yarn" and options.staging is None:
        parser.error("--backend yarn needs --staging")
    return options


async def _run(options: argparse.Namespace, ready: _Ready) -> None:
    # Only the code of the backend that is used is loaded.
    if options.backend == "local":
        from ytf.backends.local import context as local

        await serve(local.master_context(options.job_dir, options.attempt), options.finalize, ready)
    else:
        from ytf.backends.yarn.master import context as yarn

        await serve(await yarn.make_master_context(options.staging), None, ready)


async def serve(job: MasterContext, backend_gone: str | None, ready: _Ready) -> None:
    """Run the job until it has ended.

    ``backend_gone``: the backend is known to be gone for good, and why.
    """
    attempt = job.attempt
    journal = await Journal.open(job.journal, attempt, timeout_s=job.journal_timeout_s)
    server = HttpServer(RequestVerifier(job.secret))
    port = await server.listen(await asyncio.to_thread(_listener, job))
    url = f"http://{join_address(job.host, port)}"
    backend = job.backend
    registry = choose_registry(job, server)
    master = Master(
        spec=job.spec,
        info=job.info,
        url=url,
        page_url=job.page_auth.url(url),
        journal=journal,
        backend=backend,
        registry=registry,
        # All at once: one that does not answer must not delay the others.
        log_tails=LogTails(job.secret, at_once=MAX_TASKS * len(STREAMS)),
    )
    api = ClientApi(server, master.view)
    await master.recover()
    # Only after recovery: the page must not show less than the one of an earlier master.
    PageApi(server, master.view, job.page_auth, secret=job.secret)
    await backend.start(attempt, url, master.container_profiles())
    ready.send("ready")
    log(f"attempt {attempt} of {job.info.id} at {url}")
    starters = [(each.container, each.control) for each in master.view.starters()]
    announcing = asyncio.create_task(
        announce_master(starters, url, attempt, job.secret, master.awaits)
    )
    orphans = asyncio.create_task(_watch_orphans())
    await master.run(backend_gone, job.kill_requested)
    announcing.cancel()
    orphans.cancel()
    await asyncio.gather(announcing, orphans, return_exceptions=True)
    await asyncio.to_thread(kill_orphans)
    is_recorded = await backend.finish(master.view.record(), registry.remove)
    log(f"{job.info.id} ended as {master.view.status().state.value}", last=True)
    # Those who wait for the end of the job: its record is kept now.
    master.view.advance()
    api.close()
    await registry.close()
    await server.close()
    try:
        await journal.close()
    except JournalError:
        # Entries that were late are in the record.
        if not is_recorded:
            raise


async def _watch_orphans() -> None:
    """Kill what killed starters left on this node, now and once a minute."""
    while True:
        await asyncio.to_thread(kill_orphans)
        await asyncio.sleep(EVERY_S)


def _listener(job: MasterContext) -> socket.socket:
    ports = job.spec.control_ports
    try:
        return listen(job.host, job.peer, None if ports is None else parse_ports(ports))
    except OSError as exc:
        raise RefusedError(f"the master has no port: {exc}") from exc


def choose_registry(job: MasterContext, server: HttpServer) -> Registry:
    """The registry that the job's spec asks for, on the master's HTTP server."""
    spec = job.spec
    # A poll is a heartbeat: its answer must come well before the starter counts as silent.
    hold_s = min(5.0, spec.timeouts.heartbeat_timeout_s / 3)
    rest = RestRegistry(server, attempt=job.attempt, hold_s=hold_s)
    if kind_of(spec.registry) == REST:
        return rest
    # Only masters of such jobs load kazoo.
    from ytf.registry.zookeeper import ZooKeeperRegistry

    zookeeper = parse_address(spec.registry)
    return ZooKeeperRegistry(
        rest,
        servers=zookeeper.servers,
        path=instance_path(zookeeper, user=job.info.user, name=spec.name, job=job.info.id),
        job=job.info.id,
        name=spec.name,
        signer=Signer(job.secret),
    )


class _Ready:
    """The pipe on which the submitter waits until the first master is ready."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @classmethod
    def of(cls, text: str | None) -> _Ready:
        return cls(None if text is None else int(text))

    def send(self, word: str) -> None:
        """Send a word to the submitter; only the first call does."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        with open(fd, "w", encoding="utf-8") as pipe:
            pipe.write(f"{word}\n")


class _LogHandler(logging.Handler):
    """Sends what libraries and our server log to the process's log, each logger's within limits."""

    def __init__(self) -> None:
        super().__init__()
        self._logs: dict[str, LimitedLog] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self._logs.setdefault(record.name, LimitedLog()).write(self.format(record))
