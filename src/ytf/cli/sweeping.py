"""What every command does on the way: see to what dead jobs left.

Those of this machine are looked at by the command itself, which costs next to
nothing. A cluster may be slow, or away: what is left there is collected by a
process of its own, at most once an hour, that no command waits for. Whatever
it has to say, or ends with, is in ``$YTF_HOME/swept/``.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from ytf.backends.local.home import Home
from ytf.cli.streams import say
from ytf.client import settings
from ytf.errors import SettingsError

_PAUSE_S = 3600.0
_PATIENCE_S = 600
"""How long a collection may take before it is ended: it can be, at any point."""


# On our own path: -m and -c would begin with the working directory.
_CODE = "import sys; sys.path[:] = sys.argv[1:]; from ytf.cli.sweeping import main; main()"


def sweep() -> None:
    """Remove what dead local jobs left, say which were found dead, and see to the cluster."""
    try:
        keep_s = settings.history_s(settings.load())
    except SettingsError:
        return  # whoever needs the settings says what is wrong with them
    if _has_local_jobs(Home.of()):
        from ytf.backends.local.jobs import LocalJobs

        for job in LocalJobs().sweep(keep_s=keep_s):
            say(f"ytf: job {job} was found dead and is recorded as FAILED")
    cluster = settings.hadoop_configuration(os.environ)
    if cluster is not None:
        _collect_later(cluster)


def _has_local_jobs(home: Home) -> bool:
    """Whether there is anything to look at: who works with a cluster alone never has."""
    return any(map(_has_entries, (home.jobs, home.history)))


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as found:
            return any(found)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # whoever looks closer says what is wrong


def _collect_later(cluster: Path) -> None:
    """Start a collection, unless there was one of late; a command never fails for it."""
    told = report_of(Home.of(), cluster)
    try:
        if time.time() - told.stat().st_mtime < _PAUSE_S:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return
    try:
        told.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written anew, the file is the mark of this collection.
        told.write_bytes(b"")
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", _CODE, *sys.path],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, told, os.O_WRONLY | os.O_APPEND, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            # Ctrl-C and the end of the terminal are the command's.
            setsid=True,
        )
    except OSError:
        return


def report_of(home: Home, cluster: Path) -> Path:
    """What the last collection at the cluster of a configuration had to say; its time is its."""
    return home.root / "swept" / hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]


def main() -> None:
    """The collection itself, as a process."""
    from ytf.backends.local.clients import sweep_temporary
    from ytf.cli.failures import guarded
    from ytf.cli.gc import gc

    os.nice(10)
    signal.alarm(_PATIENCE_S)
    sweep_temporary()
    code = guarded("ytf gc", lambda: gc(backend="yarn", dryrun=False, verify=False))
    # Not through the interpreter's end, for hdfs-native's sake: see ytf.cli.entry.
    os._exit(code)
