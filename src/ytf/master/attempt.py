"""One attempt at being a job's master, from its command line to the job's end."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from ytf.errors import YtfError
from ytf.master.announce import announce
from ytf.master.journal import FencedError, Journal
from ytf.master.premises import Premises
from ytf.master.service import Master, log
from ytf.registry.rest import RestRegistry
from ytf.web.http import HttpServer
from ytf.web.jobapi import JobApi
from ytf.web.reading import ReadSurface
from ytf.web.signing import Gatekeeper


def main(argv: list[str] | None = None) -> int:
    """Run a master; 0 when the job was brought to its end, 3 when another master took over."""
    options = _options(argv)
    ready = _Ready.of(os.environ.pop("YTF_READY_FD", None))
    try:
        asyncio.run(_run(options, ready))
    except FencedError as error:
        log(f"{error}")
        return 3
    except YtfError as error:
        log(f"{error}")
        ready.say(f"failed: {error}")
        return 1
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ytf.master", allow_abbrev=False)
    parser.add_argument("--backend", choices=["local", "yarn"], required=True)
    local = parser.add_argument_group("local")
    local.add_argument("--job-dir", type=Path)
    local.add_argument("--attempt", type=int)
    local.add_argument("--bury", metavar="REASON")
    yarn = parser.add_argument_group("yarn")
    yarn.add_argument("--staging", metavar="URL")
    options = parser.parse_args(argv)
    if options.backend == "local" and (options.job_dir is None or options.attempt is None):
        parser.error("--backend local needs --job-dir and --attempt")
    if options.backend == "yarn" and options.staging is None:
        parser.error("--backend yarn needs --staging")
    return options


async def _run(options: argparse.Namespace, ready: _Ready) -> None:
    # Each backend's own code is loaded by its own masters only.
    if options.backend == "local":
        from ytf.backends.local import premises as local

        await serve(local.premises(options.job_dir, options.attempt), options.bury, ready)
    else:
        from ytf.backends.yarn.master import premises as yarn

        await serve(await yarn.premises(options.staging), None, ready)


async def serve(job: Premises, bury: str | None, ready: _Ready) -> None:
    """Be the master of a job until it is over."""
    attempt = job.attempt
    journal = await Journal.open(job.journal, attempt, patience_s=job.journal_patience_s)
    server = HttpServer(Gatekeeper(job.secret))
    url = f"http://{job.host}:{await server.listen(job.interface)}"
    backend = job.backend
    # A poll is a heartbeat: it must come back well before the starter counts as silent.
    hold_s = min(5.0, job.spec.timeouts.heartbeat_s / 3)
    registry = RestRegistry(server, attempt=attempt, hold_s=hold_s)
    master = Master(
        spec=job.spec,
        info=job.info,
        url=url,
        page_url=job.access.url(url),
        journal=journal,
        backend=backend,
        registry=registry,
    )
    api = JobApi(server, master)
    await master.recover()
    # Not before: what an earlier master knew must not look lost.
    ReadSurface(server, master, job.access, secret=job.secret)
    await backend.start(attempt, url)
    ready.say("ready")
    log(f"attempt {attempt} of {job.info.id} at {url}")
    listening = [(each.container, each.control) for each in master.starters()]
    telling = asyncio.create_task(announce(listening, url, attempt, job.secret))
    await master.run(bury, job.killed)
    telling.cancel()
    await backend.finish(master.record())
    log(f"{job.info.id} is over: {master.status().state.value}")
    master.tell_end()
    api.close()
    await registry.close()
    await server.close()
    await journal.close()


class _Ready:
    """The pipe on which the submitter waits for the first master."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @classmethod
    def of(cls, text: str | None) -> _Ready:
        return cls(None if text is None else int(text))

    def say(self, word: str) -> None:
        """Tell the submitter, once."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        with open(fd, "w", encoding="utf-8") as pipe:
            pipe.write(f"{word}\n")
