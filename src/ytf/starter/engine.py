"""Talks to a node's container engine, docker or podman, through its command-line client.

The client is the one interface that both engines share, and the one that a
node's administrator has configured: its sockets, contexts and permissions.
Nothing here uses ``subprocess`` or a lock: reapers, which are forks of a
process with threads, call the engine too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from ytf.log import log
from ytf.starter.orphans import (
    STARTED_BY,
    own_mark,
    own_node_and_user,
    starter_is_dead,
    sweep,
)
from ytf.starter.process_tree import send_signal, signal_on_parents_death

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Mapping, Optional, Tuple

DOCKER = "docker"
PODMAN = "podman"
KNOWN = (DOCKER, PODMAN)
"""Looked for in this order where the job does not say which engine to use."""
LABEL = "ytf.started_by"
"""The label of our containers; its value names their starter (``ytf.starter.orphans``)."""
NODE_AND_USER_LABEL = "ytf.node_and_user"
"""The label that says on which node, since which boot, and whose that starter is."""

ANSWER_S = 30.0
"""How long an engine may take to answer; a busy daemon takes seconds."""
PULL_S = 4 * 3600.0
_SILENCE_S = 10.0
"""How often it is told that a pull goes on, where the client itself says nothing."""
_SETTINGS = (
    b"DOCKER_", b"CONTAINER", b"PODMAN_", b"BUILDAH_", b"REGISTRY_", b"STORAGE_", b"XDG_", b"LD_",
    b"GO", b"SSL_", b"HTTP_", b"HTTPS_", b"NO_", b"http_", b"https_", b"no_", b"ALL_", b"all_",
    b"DBUS_", b"SYSTEMD_", b"NOTIFY_", b"LISTEN_", b"_CONTAINERS", b"OCI_", b"TMPDIR", b"HOME",
    b"PATH", b"USER", b"LOGNAME", b"LC_", b"LANG", b"TERM",
)  # fmt: skip
_MORE_FOLDERS = (b"/usr/local/bin", b"/usr/bin", b"/bin", b"/usr/sbin")
"""Where an engine's client is looked for besides PATH, which is short in some containers."""
_GONE = ("no such container", "no container with name or id", "no such object")
_OUTPUT_LIMIT = 64 * 1024


class EngineError(Exception):
    """The node's engine cannot do what the task needs; the text is for its user."""


class ClientResult:
    """What a call of the client gave: its exit code, -1 if it did not end in time, and output."""

    __slots__ = ("code", "output")

    def __init__(self, code: int, output: str) -> None:
        self.code = code
        self.output = output

    @property
    def said(self) -> str:
        """The last line that is not empty, for a sentence."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing (exit code %d)" % self.code


class EngineContainerState:
    """The state of a container, as its engine reports it.

    ``pid`` is that of its first process, if it runs.
    """

    __slots__ = ("exit_code", "pid", "status")

    def __init__(self, status: str, pid: int, exit_code: int) -> None:
        self.status = status
        self.pid = pid
        self.exit_code = exit_code

    @property
    def has_ended(self) -> bool:
        """Whether it ran, and ended."""
        return self.status in ("exited", "stopped")


class Engine:
    """One container engine of this node.

    ``rootless``: it runs as this user, and users of its containers are not the
    node's. ``cgroupfs``: cgroups are named by paths, not by systemd's units.
    """

    __slots__ = ("cgroupfs", "client", "env", "kind", "remapped", "rootless")

    def __init__(
        self,
        client: str,
        kind: str,
        env: Mapping[bytes, bytes],
        *,
        rootless: bool = False,
        remapped: bool = False,
        cgroupfs: bool = False,
    ) -> None:
        self.client = client
        self.kind = kind
        self.env = env
        self.rootless = rootless
        self.remapped = remapped
        self.cgroupfs = cgroupfs

    def call(
        self,
        *words: str,
        timeout_s: float = ANSWER_S,
        on_line: Optional[Callable[[str], None]] = None,
    ) -> ClientResult:
        """Run the client and return its answer; ``on_line`` gets each line as it comes."""
        return call_client([self.client, *words], self.env, timeout_s, on_line)

    def ensure_image(self, image: str, on_line: Callable[[str], None]) -> None:
        """Have the image on this node; pulls it if it is not. Raises ``EngineError``.

        ``on_line`` gets the progress of a pull.
        """
        answer = self.call("image", "inspect", "--format", "{{.Id}}", image)
        if answer.code == 0:
            return
        refused = why_refused(answer.output)
        if refused:
            raise EngineError(refused % self.kind)
        on_line("pulling the image %s with %s" % (image, self.kind))
        answer = self.call("pull", image, timeout_s=PULL_S, on_line=on_line)
        if answer.code != 0:
            raise EngineError(
                "the image %s is not on this node, and %s could not pull it: %s; check its name, "
                "or load it on the nodes before (%s load, %s pull)"
                % (image, self.kind, answer.said, self.kind, self.kind)
            )
        on_line("the image %s is on this node now" % image)

    def remove(self, name: str) -> str:
        """Kill and remove a container; returns why it may still be there, "" if it is gone."""
        # "rm -f" of podman alone would wait ten seconds before it kills.
        self.call("kill", name)
        answer = self.call("rm", "-f", name)
        return "" if answer.code == 0 or is_gone(answer.output) else answer.said

    def state(self, name: str) -> Optional[EngineContainerState]:
        """Return how a container is; None if there is none, or the engine does not say."""
        wanted = "{{.State.Status}} {{.State.Pid}} {{.State.ExitCode}}"
        answer = self.call("inspect", "--type", "container", "--format", wanted, name)
        words = answer.output.split()
        if answer.code != 0 or len(words) != 3 or not (words[1] + words[2]).isdigit():
            return None
        return EngineContainerState(words[0], int(words[1]), int(words[2]))

    def remove_orphans(self) -> None:
        """Remove this user's containers of starters of this node that are dead; never raises.

        See ADR 17 and ADR 24. An engine may serve other users and other nodes,
        whose starters cannot be seen from here.
        """
        sweep(self._remove_orphans)

    def _remove_orphans(self) -> None:
        ours = own_node_and_user()
        filter_ = "label=%s=%s" % (NODE_AND_USER_LABEL, ours)
        answer = self.call("ps", "-a", "-q", "--no-trunc", "--filter", filter_)
        ids = answer.output.split() if answer.code == 0 else []
        if not ids or not ours:
            return
        labels = '{{json (index .Config.Labels "%s")}}'
        wanted = "{{.Id}} [%s,%s]" % (labels % NODE_AND_USER_LABEL, labels % LABEL)
        # One that ended meanwhile makes the client fail, after it has told the others.
        told = self.call("inspect", "--type", "container", "--format", wanted, *ids)
        for line in told.output.splitlines():
            container, whose, mark = _labels_of(line)
            if container in ids and whose == ours and starter_is_dead(mark):
                log("removing the %s container %s of a dead starter" % (self.kind, container[:12]))
                why = self.remove(container)
                if why:
                    log("it could not be removed: %s" % why)


def _labels_of(line: str) -> Tuple[str, str, bytes]:
    """Return the id of a container and two labels; they are in JSON, as they may hold anything."""
    container, _, labels = line.strip().partition(" ")
    try:
        whose, mark = map(str, json.loads(labels))
    except (ValueError, TypeError):
        return "", "", b""  # it is no answer, but a complaint of the client
    return container, whose, mark.encode("utf-8", "replace")


def find_engine(asked: Optional[str], env: Mapping[bytes, bytes]) -> Engine:
    """Return the engine of this node that answers; raises ``EngineError``.

    ``asked`` is its client's name or path; None: docker or, where that does not
    answer, podman. ``env`` are the client's variables.
    """
    names = KNOWN if asked is None else (asked,)
    problems: List[str] = []
    for name in names:
        client = find_client(name, env)
        if client is None:
            problems.append("there is no %s" % name)
            continue
        try:
            return _open(client, env)
        except EngineError as exc:
            problems.append(str(exc))
    raise EngineError(
        "this node has no container engine that this task can use: %s; ask the administrator for "
        "docker or podman here, or name another one (--docker_engine)" % "; ".join(problems)
    )


def find_client(name: str, env: Mapping[bytes, bytes]) -> Optional[str]:
    """Return the path of a client; None if it is not on this node."""
    if "/" in name:
        return name if os.path.isabs(name) and os.access(name, os.X_OK) else None
    for folder in [*env.get(b"PATH", b"").split(b":"), *_MORE_FOLDERS]:
        path = os.path.join(folder, os.fsencode(name))
        if os.path.isabs(path) and os.access(path, os.X_OK) and os.path.isfile(path):
            return os.fsdecode(path)
    return None


def client_environment(
    container: Mapping[bytes, bytes],
    task_variables: List[str],
    shadowed: Mapping[str, str],
    settings: Mapping[str, str],
) -> Dict[bytes, bytes]:
    """Return the client's variables: the node's, without those that are for the program.

    ``shadowed`` are the node's own values of variables that the task has, too;
    ``settings`` are the job's for the engine.
    """
    ours = {os.fsencode(name) for name in task_variables}
    result = {
        name: value
        for name, value in container.items()
        if name not in ours and not name.startswith((b"YTF_", b"DTF_"))
    }
    for given in (shadowed, settings):
        result.update({os.fsencode(name): os.fsencode(text) for name, text in given.items()})
    # So that a client whose starter was killed is found, too.
    result[STARTED_BY.encode()] = own_mark().encode()
    return result


def is_client_setting(name: bytes) -> bool:
    """Tell whether a client may read a variable of this name itself."""
    return name.startswith(_SETTINGS)


def is_gone(output: str) -> bool:
    """Tell whether a client says that there is no such container."""
    text = output.lower()
    return any(words in text for words in _GONE)


def why_refused(output: str) -> str:
    """Return why an engine does not serve this user, as a sentence about ``%s``; "" if it does."""
    text = output.lower()
    if "permission denied" in text:
        return (
            "user %d may not use %%s on this node (permission denied): ask the administrator, "
            "who for docker adds the user to the group docker" % os.geteuid()
        )
    if "cannot connect" in text or "unable to connect" in text or "connection refused" in text:
        return "%s does not answer on this node: its daemon does not run"
    return ""


def _open(client: str, env: Mapping[bytes, bytes]) -> Engine:
    name = os.path.basename(client)
    if name == PODMAN or _is_podman(client, env):
        remote = b"CONTAINER_HOST" in env or name.endswith("-remote")
        return Engine(
            client, PODMAN, env, rootless=os.geteuid() != 0 and not remote, cgroupfs=not remote
        )
    wanted = "{{.CgroupDriver}} {{.SecurityOptions}}"
    info = call_client([client, "info", "--format", wanted], env, ANSWER_S)
    # Some versions exit with 0 and print nothing but an error if there is no daemon.
    refused = why_refused(info.output)
    if refused:
        raise EngineError(refused % name)
    if info.code != 0:
        raise EngineError("%s does not work: %s" % (client, info.said))
    return Engine(
        client,
        DOCKER,
        env,
        rootless="name=rootless" in info.output,
        remapped="name=userns" in info.output,
        cgroupfs=info.output.startswith("cgroupfs"),
    )


def _is_podman(client: str, env: Mapping[bytes, bytes]) -> bool:
    """Tell whether a client is podman under another name, as podman-docker installs it."""
    version = call_client([client, "--version"], env, ANSWER_S)
    if version.code != 0:
        raise EngineError("%s does not work: %s" % (client, version.said))
    return PODMAN in version.output.lower()


def call_client(
    argv: List[str],
    env: Mapping[bytes, bytes],
    timeout_s: float,
    on_line: Optional[Callable[[str], None]] = None,
) -> ClientResult:
    """Run a client to its end and return what it wrote to both of its streams.

    It dies with the thread that calls this. A client that takes longer than
    ``timeout_s`` is killed.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_client(argv, env, writing, parent)
    os.close(writing)
    began = time.monotonic()
    deadline = began + timeout_s
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    output = rest = b""
    in_time = True
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 and in_time:
            in_time = False
            send_signal(pid, signal.SIGKILL)
        if not poll.poll(min(max(left_s, 1.0), _SILENCE_S) * 1000):
            if not in_time:
                break  # something that it started still has the pipe
            if on_line is not None:
                on_line("it goes on, since %.0f s" % (time.monotonic() - began))
            continue
        data = os.read(reading, 8192)
        if not data:
            break
        output = (output + data)[-_OUTPUT_LIMIT:]
        if on_line is not None:
            *lines, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                if line.strip():
                    on_line(line.decode("utf-8", "replace").strip())
    os.close(reading)
    text = output.decode("utf-8", "replace")
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return ClientResult(-1, text)  # it was reaped with everything else that a dead reaper left
    if not in_time:
        return ClientResult(-1, text + "\nit did not answer within %.0f s" % timeout_s)
    return ClientResult(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1, text)


def _become_client(argv: List[str], env: Mapping[bytes, bytes], writing: int, parent: int) -> None:
    try:
        os.setsid()
        signal_on_parents_death(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(argv[0], argv, env)
    except OSError as exc:
        os.write(2, ("cannot run %s: %s\n" % (argv[0], exc.strerror)).encode("utf-8", "replace"))
    finally:
        os._exit(126)
