"""``python -m ytf.master``: one attempt at being a job's master. Started by the backend."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import msgspec

from ytf.backends.local.containers import LocalContainers
from ytf.errors import YtfError
from ytf.master.announce import announce
from ytf.master.journal import FencedError, Journal
from ytf.master.service import Master, log
from ytf.master.view import JobInfo
from ytf.registry.rest import RestRegistry
from ytf.specs import codec
from ytf.storage.blobs import LocalBlobs
from ytf.web.http import HttpServer
from ytf.web.jobapi import JobApi
from ytf.web.signing import Gatekeeper


def main(argv: list[str] | None = None) -> int:
    """Run a master; 0 when the job was brought to its end, 3 when another master took over."""
    parser = argparse.ArgumentParser(prog="ytf.master", allow_abbrev=False)
    parser.add_argument("--backend", choices=["local"], required=True)
    parser.add_argument("--job-dir", type=Path, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--bury", metavar="REASON")
    options = parser.parse_args(argv)
    ready = _Ready.of(os.environ.pop("YTF_READY_FD", None))
    try:
        asyncio.run(serve(options.job_dir, options.attempt, options.bury, ready))
    except FencedError as error:
        log(f"{error}")
        return 3
    except YtfError as error:
        log(f"{error}")
        ready.say(f"failed: {error}")
        return 1
    return 0


async def serve(job_dir: Path, attempt: int, bury: str | None, ready: _Ready) -> None:
    """Be the master of the job staged in ``job_dir`` until it is over."""
    spec = codec.from_json((job_dir / "spec.json").read_bytes())
    info = msgspec.json.decode((job_dir / "job.json").read_bytes(), type=JobInfo)
    secret = (job_dir / "secret").read_bytes()
    journal = await Journal.open(LocalBlobs(job_dir / "journal"), attempt, patience_s=1.0)
    server = HttpServer(Gatekeeper(secret))
    url = f"http://127.0.0.1:{await server.listen('127.0.0.1')}"
    backend = LocalContainers(job_dir)
    # A poll is a heartbeat: it must come back well before the starter counts as silent.
    hold_s = min(5.0, spec.timeouts.heartbeat_s / 3)
    registry = RestRegistry(server, attempt=attempt, hold_s=hold_s)
    master = Master(
        spec=spec, info=info, url=url, journal=journal, backend=backend, registry=registry
    )
    api = JobApi(server, master)
    await master.recover()
    await backend.start(attempt, url)
    ready.say("ready")
    log(f"attempt {attempt} of {info.id} at {url}")
    telling = asyncio.create_task(announce(master.starters(), url, attempt, secret))
    await master.run(bury)
    telling.cancel()
    await backend.finish(master.record())
    log(f"{info.id} is over: {master.status().state.value}")
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


if __name__ == "__main__":
    sys.exit(main())
