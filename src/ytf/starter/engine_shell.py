"""Runs the shell of ``ytf shell`` in the engine's container of a task (ADR 24, ADR 27).

::

    shell process ──fork, exec──▶ docker exec … NAME sh -c SHELL
                                      │ (docker: the daemon; podman: itself)
                                      ▼
                                  container: sh -c SHELL ──▶ bash

What runs in the container is no descendant of the shell process. It is found by
the mark in its variables (``ytf.starter.orphans``), which names the shell
process, and by what processes with the mark have started.
"""

from __future__ import annotations

import os
import signal
import time

from ytf.log import log
from ytf.starter.engine import PODMAN, Engine
from ytf.starter.engine_runner import RunningContainer
from ytf.starter.orphans import STARTED_BY, find_marked, own_mark
from ytf.starter.process_tree import read_stat, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional

    from ytf.starter.process_tree import ProcessStat
    from ytf.starter.runner import ContainerAccess

# It waits for the shell and kills what that leaves in its session. Traps are not inherited.
SHELL = """\
trap : HUP INT QUIT TERM USR1 USR2
if [ $# -gt 0 ]; then
  if command -v bash >/dev/null 2>&1; then bash -c "$1"; else sh -c "$1"; fi
elif [ -x "${SHELL:-/}" ] && [ ! -d "${SHELL:-/}" ]; then "$SHELL"
elif command -v bash >/dev/null 2>&1; then bash
else sh
fi
code=$?
for file in /proc/[0-9]*/stat; do
  read -r line <"$file" || continue
  set -- "${line%% *}" ${line##*) }
  [ "$5" = $$ ] && [ "$1" != $$ ] && kill -9 "$1"
done 2>/dev/null
exit $code
"""

# For an engine whose processes cannot be seen from here.
_SIGNAL = """\
for folder in /proc/[0-9]*; do
  grep -q "$1" $folder/environ && kill -$2 ${folder#/proc/} && found=1
done 2>/dev/null
[ -n "$found" ]
"""

DETACH_KEYS = {PODMAN: ""}
_OTHER_KEYS = "ctrl-@,ctrl-^,ctrl-@"
"""docker cannot be told that there are none, and would withhold its own first one, Ctrl-P."""

KILL_S = 3.0
"""How long it may take until killed processes are gone."""
LATE_S = 1.0
"""How long after the death of its client an engine may still start the shell."""
_POLL_S = 0.02


class ShellContainer:
    """A container of an engine, and the one shell that this process runs there."""

    def __init__(self, access: ContainerAccess) -> None:
        self.env: Mapping[bytes, bytes] = access.env
        """The variables of the client."""
        self._access = access
        self._engine = Engine(access.client, access.kind, access.env)
        self._container = RunningContainer(self._engine, access.name, access.mark)
        self._mark = own_mark()
        self._known: Dict[int, int] = {}
        """The pids of the shell's processes, with their start times: Linux reuses pids."""
        self._is_used = False
        self._was_seen = False

    def argv(self, command: Optional[str], term: Optional[str]) -> List[str]:
        """Return the client's words for a command, or a shell, with a terminal or without."""
        self._is_used = True
        access = self._access
        words = [access.client, "exec", "-i", "--env", "%s=%s" % (STARTED_BY, self._mark)]
        if term is not None:
            keys = DETACH_KEYS.get(access.kind, _OTHER_KEYS)
            words += ["-t", "--env", "TERM=%s" % term, "--detach-keys=%s" % keys]
        words += ["--workdir", access.workdir, access.name, "sh", "-c", SHELL, "ytf-shell"]
        return words if command is None else [*words, command]

    def has_ended(self) -> bool:
        """Tell whether the whole container is known to have ended."""
        init = self._access.init
        return init is not None and not self._container.is_visible(init)

    def signal(self, signum: int) -> None:
        """Signal the process group of the shell."""
        if self._access.init is None:
            self._signal_inside(signum)
            return
        found = self._processes()
        try:
            if found:
                os.killpg(os.getpgid(found[0]), signum)
        except ProcessLookupError:
            return  # it has ended meanwhile

    def kill_processes(self) -> None:
        """Kill the shell and what it started; returns when it is dead, or cannot be killed."""
        if not self._is_used:
            return
        deadline = time.monotonic() + KILL_S
        while self._kill_once():
            if time.monotonic() > deadline:
                log("processes of a shell in %s do not die" % self._access.name)
                return
            time.sleep(_POLL_S)

    def kill_late_processes(self) -> None:
        """Do the same after the death of a client that had not ended by itself.

        The engine may have been about to start the shell.
        """
        deadline = time.monotonic() + LATE_S
        while self._is_used and not self._was_seen and time.monotonic() < deadline:
            if self.has_ended():
                return
            time.sleep(_POLL_S)
            self.kill_processes()

    def _kill_once(self) -> bool:
        """Send SIGKILL to all; False if there is none."""
        if self._access.init is None:
            return self._signal_inside(signal.SIGKILL)
        found = self._processes()
        for pid in found:
            send_signal(pid, signal.SIGKILL)
        return bool(found)

    def _signal_inside(self, signum: int) -> bool:
        marked = "%s=%s" % (STARTED_BY, self._mark)
        script = ("sh", "-c", _SIGNAL, "ytf-signal", marked, "%d" % signum)
        return self._engine.call("exec", self._access.name, *script).code == 0

    def _processes(self) -> List[int]:
        """Return the pids of the shell's processes on this node, the oldest first."""
        table = _living()
        sessions = {stat.session for stat in table.values()}
        # Of one that has ended the number is kept while it is that of a session: until then
        # Linux gives it to no other process.
        known = {
            pid: started
            for pid, started in self._known.items()
            if (table[pid].started == started if pid in table else pid in sessions)
        }
        known.update({pid: table[pid].started for pid in find_marked(self._mark) if pid in table})
        while True:
            # A process may be without our variables, or its parent dead, but hardly both
            # in a session of its own.
            more = {
                pid: stat.started
                for pid, stat in table.items()
                if pid not in known and (stat.parent in known or stat.session in known)
            }
            if not more:
                break
            known.update(more)
        self._known = known
        self._was_seen = self._was_seen or bool(known)
        alive = [pid for pid in known if pid in table]
        return sorted(alive, key=lambda pid: table[pid].started)


def _living() -> Dict[int, ProcessStat]:
    """Return what is known of each living process."""
    found = {}
    for name in os.listdir("/proc"):
        stat = read_stat(int(name)) if name.isdigit() else None
        if stat is not None and not stat.is_dead:
            found[int(name)] = stat
    return found
