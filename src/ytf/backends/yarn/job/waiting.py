"""Why a job has no master (yet, or any more): the ResourceManager's words as a sentence.

The CapacityScheduler says a great deal (``CSAMContainerLaunchDiagnosticsConstants``),
other schedulers little. What is said only of jobs that are on their way, as
every job is for a second, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ytf.hadoop.yarn.records import ApplicationReport, ApplicationState, NodeReport
from ytf.hadoop.yarn.resources import Resource

Nodes = Callable[[], Sequence[NodeReport]]

_AMOUNT = re.compile(r"([A-Z][^=;]*?) = <memory:(\d+), vCores:(\d+)")
_DATE = re.compile(r"^\[[^\]]*\]\s*")
_QUEUE_LIMIT = "Queue's AM resource limit exceeded"
_USER_LIMIT = "User's AM resource limit exceeded"
_NO_CLUSTER = "cluster resource is empty"
_WAITS_FOR_ROOM = "waiting for resources to be assigned for AM"
_ON_ITS_WAY = ("Scheduler has assigned a container for AM", "AM container is launched")
_NOT_ACTIVATED = "Application is added to the scheduler and is not yet activated."
_NO_NODES = "Waiting for its master: the cluster has no running nodes."


def why_waiting(report: ApplicationReport, master: Resource | None, nodes: Nodes) -> str:
    """Why an accepted job has not started; empty if there is no reason to worry.

    ``master`` is what its master asks for, where that is known. ``nodes`` is
    asked only if the answer depends on them.
    """
    if report.state is not ApplicationState.ACCEPTED:
        return ""
    said = _DATE.sub("", report.diagnostics.strip())
    amounts = {name: Resource(int(mb), int(cores)) for name, mb, cores in _AMOUNT.findall(said)}
    if _QUEUE_LIMIT in said or _USER_LIMIT in said:
        return _limit(report, amounts, is_user=_USER_LIMIT in said)
    if _NO_CLUSTER in said:
        return _NO_NODES
    if any(word in said for word in _ON_ITS_WAY):
        return ""
    if not said or _WAITS_FOR_ROOM in said:
        return _room(report, amounts, master, nodes())
    words = said.removeprefix(_NOT_ACTIVATED).partition("Details :")[0].strip()
    return f"Waiting for its master, says YARN: {words or said}"


def why_silent(report: ApplicationReport, heard: str, waiting: str) -> str:
    """That the master of a job that goes on does not answer, and what YARN makes of it.

    ``heard`` is what came of asking it, ``waiting`` why there is no other yet.
    """
    number = 1 if report.attempt is None else report.attempt.number
    text = f"Master attempt {number} does not answer right now"
    if report.state is ApplicationState.RUNNING:
        return (
            f"{text}: {heard or 'it did not say why'}. YARN starts another once it finds this one"
            " dead, which takes minutes if its node is lost."
        )
    if number > 1:
        what = waiting or "It is on its way."
        return f"{text}: it has not begun yet, and attempt {number - 1} has ended. {what}"
    return f"{text}: the ResourceManager has not heard of it since it was started again itself."


def _limit(report: ApplicationReport, amounts: dict[str, Resource], *, is_user: bool) -> str:
    limit = amounts.get(
        "User AM Resource Limit of the queue" if is_user else "Queue Resource Limit for AM"
    )
    whose = f"{report.user}'s masters" if is_user else "the masters"
    text = f"Waiting for its master: {whose} in the queue {report.queue} may have "
    text += f"{limit} in all" if limit else "no more"
    used, asked = amounts.get("Queue AM Resource Usage"), amounts.get("AM Resource Request")
    if used and asked:
        text += f", those that run have {used}, and this one asks for {asked}"
    return f"{text}. It starts when others end; a smaller one (--master_memory) may start earlier."


def _room(
    report: ApplicationReport,
    amounts: dict[str, Resource],
    master: Resource | None,
    nodes: Sequence[NodeReport],
) -> str:
    usable = [node for node in nodes if node.state.usable]
    if not usable:
        return _NO_NODES
    if master is None:
        return ""
    used = amounts.get("Queue's used capacity (absolute resource)")
    most = amounts.get("Queue's max capacity (absolute resource)")
    if used and most and (used + master).excess_over(most):
        return (
            f"Waiting for its master ({master}): the queue {report.queue} has {used} in use,"
            f" and may have at most {most}."
        )
    if any(master.fits_in(node.free) for node in usable):
        return ""
    free = max((node.free for node in usable), key=lambda free: free.memory_mb)
    return f"Waiting for its master ({master}): the most that is free on a node is {free}."
