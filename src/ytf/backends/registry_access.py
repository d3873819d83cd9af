"""What backends do with a job's registry before the job runs and after it has ended.

Before: they check that the job will be able to use it. After: they remove what it
left there, because ZooKeeper was unavailable or no master was there to do it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ytf.backends.api import Notify, Plan, RemovedItem
from ytf.errors import UnreachableError, YtfError
from ytf.specs.ids import JobId
from ytf.specs.registry import REST, instance_path, parse_address


def check_registry_access(plan: Plan) -> None:
    """Raise ``UnreachableError`` or ``RefusedError`` if the job could not use its registry now.

    Takes seconds at most.
    """
    if plan.spec.registry == REST:
        return
    # It loads kazoo, which other submissions do not need.
    from ytf.registry.zookeeper_admin import check_access

    check_access(parse_address(plan.spec.registry), user=plan.user, name=plan.spec.name)


@dataclass
class RegistryLeftovers:
    """One search for what several jobs left. A ZooKeeper that does not answer is asked once."""

    notify: Notify
    dryrun: bool = False
    failed: set[JobId] = field(default_factory=set)
    """The jobs that may have left something which could not be removed."""
    _away: set[str] = field(default_factory=set)

    def remove(self, registry: str, *, user: str, name: str, job: JobId) -> RemovedItem | None:
        """Remove the znodes of a job that has ended; returns what there was.

        ``notify`` is told what is left because that was not possible.
        """
        if registry == REST:
            return None
        if registry in self._away:
            self.failed.add(job)
            return None
        # It loads kazoo, which other commands do not need.
        from ytf.registry.zookeeper_admin import ForeignNodesError, remove_job_znodes

        try:
            zookeeper = parse_address(registry)
            path = instance_path(zookeeper, user=user, name=name, job=job)
            if not remove_job_znodes(zookeeper, path, dryrun=self.dryrun):
                return None
        except ForeignNodesError as error:
            # Not failed: the job's files are not kept for what others do.
            self.notify(f"znodes below job {job}'s in ZooKeeper stay: {error}")
            return None
        except YtfError as error:
            if isinstance(error, UnreachableError):
                self._away.add(registry)
            self.failed.add(job)
            self.notify(f"what job {job} may have left in ZooKeeper stays: {error}")
            return None
        return RemovedItem(what="znodes in ZooKeeper", where=path)
