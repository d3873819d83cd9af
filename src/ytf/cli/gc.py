"""``ytf gc`` and ``ytf rm``, and the automatic gc that every other command runs.

The automatic gc looks at the jobs of this machine at once, which takes about a
millisecond. A cluster may be slow or unreachable, so its gc runs in a process of
its own, at most once an hour, and no command waits for it. What that process
prints is in a file in ``$YTF_HOME/gc/``.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ytf.backends.local.directories import JobDirectories
from ytf.cli.output import say
from ytf.client import settings
from ytf.errors import SettingsError, YtfError
from ytf.home import make_private_directory
from ytf.specs.amounts import format_bytes

_INTERVAL_S = 3600.0
_TIME_LIMIT_S = 600
"""SIGALRM ends a background gc after so long; it may be ended at any point."""

# With our own sys.path: -m and -c would put the working directory first.
_CODE = "import sys; sys.path[:] = sys.argv[1:]; from ytf.cli.gc import main; main()"


def gc(
    *, backend: str | None, dryrun: bool, verify: bool, older_than_s: float | None = None
) -> int:
    """Remove leftovers from this machine and, if jobs go to a cluster, from the cluster.

    Records of jobs that ended longer than ``older_than_s`` ago go too, in place
    of the time that the settings give.
    Prints a line on stdout for each thing that was removed, or with ``dryrun`` would be.
    """
    from ytf import backends
    from ytf.cli import tables
    from ytf.cli.job_arguments import chosen_backend

    given = settings.load({"backend": backend})
    keep_s = settings.history_s(given) if older_than_s is None else older_than_s
    choice = chosen_backend("ytf", given)
    count = size = 0
    # This machine first: a cluster may not answer.
    for name in dict.fromkeys(("local", choice.name)):
        removed = backends.get_backend(name).gc(
            keep_s=keep_s, dryrun=dryrun, verify=verify, notify=lambda text: say(f"ytf: {text}")
        )
        if removed:
            rows = [(item.what, format_bytes(item.size), item.where) for item in removed]
            tables.show(("what", "size", "where"), rows, sys.stdout)
        count += len(removed)
        size += sum(item.size for item in removed)
    if not count:
        say("ytf: there is nothing to remove")
        if older_than_s is None:
            say(
                f"hint: records and logs stay for {keep_s / 86400:g} days; "
                "--older-than 1d removes what is older than a day"
            )
    else:
        things = "1 thing" if count == 1 else f"{count} things"
        say(f"ytf: {'would remove' if dryrun else 'removed'} {things}, {format_bytes(size)}")
    return 0


def remove(jobs: Sequence[str], *, backend: str | None = None) -> int:
    """Remove the records of ended jobs. An error with one does not stop the others."""
    return max([_remove(job, backend) for job in jobs])


def _remove(job: str, backend: str | None) -> int:
    from ytf.cli.job_arguments import open_job
    from ytf.cli.output import report_error

    try:
        handle = open_job(job, backend)
        removed = handle.remove()
    except YtfError as error:
        report_error("ytf", error)
        return error.exit_code
    size = format_bytes(removed.size)
    say(f"ytf: removed the {removed.what} of job {handle.job} ({size})")
    return 0


def automatic_gc() -> None:
    """Remove what dead local jobs left, report them, and start a gc of the cluster if one is due.

    Never fails a command.
    """
    try:
        keep_s = settings.history_s(settings.load())
        home = JobDirectories.from_environ()
    except SettingsError:
        return  # a command that needs the settings or YTF_HOME reports what is wrong with them
    if _has_local_jobs(home):
        from ytf.backends.local.backend import LocalJobBackend

        for job in LocalJobBackend().gc_dead_jobs(keep_s=keep_s):
            say(f"ytf: job {job} was found dead and is recorded as FAILED")
    cluster = settings.hadoop_configuration(os.environ)
    if cluster is not None:
        _start_cluster_gc(cluster)


def cluster_gc_report(home: JobDirectories, conf_dir: Path) -> Path:
    """The file with the output of the last background gc of the cluster with this configuration.

    The file's modification time is when that gc began or last printed something.
    """
    return home.root / "gc" / hashlib.sha256(os.fsencode(conf_dir)).hexdigest()[:16]


def main() -> None:
    """Run the gc of the cluster; the background process starts here."""
    from ytf.backends.local.client_directories import gc_temporary_directories
    from ytf.cli.output import run_command

    os.nice(10)
    signal.alarm(_TIME_LIMIT_S)
    gc_temporary_directories()
    code = run_command("ytf gc", lambda: gc(backend="yarn", dryrun=False, verify=False))
    # Skips the interpreter's shutdown because of hdfs-native: see ytf.cli.entry.
    os._exit(code)


def _has_local_jobs(home: JobDirectories) -> bool:
    """Whether there are local jobs at all: a user of a cluster may have none."""
    return any(map(_has_entries, (home.jobs, home.history)))


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as found:
            return any(found)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # LocalJobBackend reports what is wrong


def _start_cluster_gc(conf_dir: Path) -> None:
    """Start a background gc, unless one was started within the last hour."""
    report = cluster_gc_report(JobDirectories.from_environ(), conf_dir)
    try:
        if time.time() - report.stat().st_mtime < _INTERVAL_S:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return
    try:
        make_private_directory(report.parent)
        # Writing the file sets its time, which keeps other commands from starting a gc.
        report.write_bytes(b"")
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", _CODE, *sys.path],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, report, os.O_WRONLY | os.O_APPEND, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            # Ctrl-C and the end of the terminal are for the command, not for the gc.
            setsid=True,
        )
    except OSError:
        return
