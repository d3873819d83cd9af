"""Checks Hadoop's configuration, and how users log in to the cluster, for ``ytf doctor``."""

from __future__ import annotations

import shutil
import subprocess

from ytf.backends.checks import CheckFinding, failed, ok
from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.hadoop.conf import FILES
from ytf.hadoop.security.login import USER_VARIABLE

_NEEDED = ("core-site.xml", "yarn-site.xml")
_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME")
_KLIST_S = 5.0


def check_configuration(cluster: Cluster) -> CheckFinding:
    """Read the configuration; say where it is and which files it has."""
    place = cluster.directory
    there = [name for name in FILES if (place / name).is_file()]
    missing = [name for name in _NEEDED if name not in there]
    if missing:
        return failed(
            f"{place} has no {' and no '.join(missing)}",
            "copy the configuration of the cluster there, all of its -site.xml files",
        )
    variable = next(name for name in _VARIABLES if cluster.environ.get(name))
    return ok(f"{place} (from {variable}): {', '.join(there)}")


def check_security(cluster: Cluster) -> CheckFinding:
    """Tell how users log in, and refuse what ytf cannot do."""
    if cluster.conf.secure:
        return failed(
            "hadoop.security.authentication is kerberos. Kerberos is not supported yet: ytf cannot "
            f"log in to this cluster{_ticket()}",
            "use a cluster with simple authentication; to try ytf, `ytf cluster up` makes one",
        )
    named = f" ({USER_VARIABLE})" if cluster.environ.get(USER_VARIABLE) else ""
    return ok(f"simple: the cluster believes that you are {cluster.user}{named}")


def _ticket() -> str:
    """Whether the user has a Kerberos ticket, as the end of a sentence; empty if unknown."""
    program = shutil.which("klist")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "-s"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_KLIST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return " (you have a valid ticket)" if done.returncode == 0 else " (you have no valid ticket)"
