"""Which HDFS paths a job names, and whether their clusters answer, before a job is submitted.

A path may be meant for the nodes alone, with another Hadoop configuration or
another network than this machine has. So what is found here is told, and not
refused.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

from ytf.backends.api import Notify, Plan
from ytf.errors import SettingsError, YtfError
from ytf.hadoop.conf import Configuration
from ytf.specs.job import CLIENT, Framework, JobSpec

ANSWER_S = 5.0
"""How long all clusters together may take to answer."""

_URL = re.compile(r"""\b(?:hdfs|viewfs)://[^\s'"`;|&<>(),]*""")

Look = Callable[[str, Configuration], None]
"""Raises an error if the cluster of an ``hdfs://`` URL does not answer."""


def hdfs_urls(spec: JobSpec) -> list[str]:
    """The ``hdfs://`` and ``viewfs://`` URLs that a job gives its tasks, each once."""
    groups = spec.groups.values()
    texts = [spec.input, spec.output, spec.command, spec.client_command, *spec.task_env.values()]
    texts += [text for group in groups for text in (group.command, *group.task_env.values())]
    for group in groups:
        texts += [text for own in group.task_env_overrides.values() for text in own.values()]
    return list(dict.fromkeys(url for text in texts if text for url in _URL.findall(text)))


def tensorflow_groups(spec: JobSpec) -> list[str]:
    """The groups whose programs use TensorFlow, ``client`` among them."""
    names = [*spec.groups, *([CLIENT] if spec.client else [])]
    return [name for name in names if spec.framework_of(name) is Framework.TENSORFLOW]


def check_hdfs_access(plan: Plan, notify: Notify, conf: Configuration | None = None) -> None:
    """Notify of each cluster that TensorFlow is given a path of and that does not answer here.

    ``conf`` is the Hadoop configuration; None: that of this machine, if there is
    one. Takes :data:`ANSWER_S` at most.
    """
    if not tensorflow_groups(plan.spec):
        return
    # One cluster is asked once. What a shell is to expand is not known yet.
    clusters = {_cluster(url): url for url in reversed(hdfs_urls(plan.spec))}
    wanted = {cluster: url for cluster, url in clusters.items() if "$" not in cluster}
    if not wanted:
        return
    try:
        conf = conf or _own_configuration()
    except SettingsError as error:
        notify(f"{next(iter(wanted.values()))} could not be checked: {error}")
        return
    for url, reason in find_silent(wanted.values(), conf):
        notify(
            f"{url} cannot be opened from here: {reason}; the tasks go by the Hadoop "
            "configuration of their nodes or, where these have none, by the one here"
        )


def find_silent(
    urls: Iterable[str], conf: Configuration, look: Look | None = None, limit_s: float = ANSWER_S
) -> list[tuple[str, str]]:
    """Return the URLs whose clusters do not answer, each with the reason. All are asked at once."""
    look = look or _look
    answers: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def ask(url: str) -> None:
        try:
            look(_target(url, conf), conf)
            answers.put((url, ""))
        except (YtfError, OSError, ValueError) as error:
            answers.put((url, str(error)))

    waiting = dict.fromkeys(urls)
    for url in waiting:
        # Daemons: looking up a name may take longer than anybody wants to wait.
        threading.Thread(target=ask, args=(url,), name="hdfs-access", daemon=True).start()
    found: dict[str, str] = dict.fromkeys(waiting, f"there is no answer within {limit_s:g} s")
    deadline = time.monotonic() + limit_s
    while waiting:
        try:
            url, reason = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        found[url] = reason
        del waiting[url]
    return [(url, reason) for url, reason in found.items() if reason]


def _own_configuration() -> Configuration:
    place = Configuration.find(os.environ)
    return Configuration.of({}) if place is None else Configuration.load(Path(place))


def _cluster(url: str) -> str:
    """What is asked once: a cluster, or a path of a viewfs, which may lead to any."""
    if url.startswith("viewfs://"):
        return url
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _target(url: str, conf: Configuration) -> str:
    """The ``hdfs://`` URL behind a URL: itself, or where the mount table of a viewfs leads."""
    if url.startswith("hdfs://"):
        return url
    # It loads hdfs-native.
    from ytf.storage.open_url import resolve_viewfs

    return resolve_viewfs(url, conf)


def _look(url: str, conf: Configuration) -> None:
    """Ask the NameNodes for their root directory."""
    # It loads hdfs-native, which other submissions on one machine do not need.
    from ytf.storage.hdfs_client import HdfsClient

    client = HdfsClient(url, conf, timeout_s=ANSWER_S, answer_s=ANSWER_S)
    parts = urlsplit(client.authority)
    if not client.has_standby and parts.hostname and parts.port:
        try:
            socket.getaddrinfo(parts.hostname, parts.port)
        except OSError as exc:
            raise SettingsError(
                f"{parts.hostname} is neither a nameservice of the Hadoop configuration "
                "(dfs.nameservices) nor a host that is known here"
            ) from exc
    client.call("look", lambda native: native.get_file_info("/"), changes=False)
