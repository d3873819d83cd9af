"""What commands do in ZooKeeper: look whether a job can use it, and remove what dead jobs left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError

from ytf.errors import RefusedError, UnreachableError
from ytf.registry.zookeeper_client import (
    DISCONNECTED,
    end_client,
    explain_unreachable,
    make_client,
)
from ytf.specs.registry import ZooKeeperAddress, instance_path

CONNECT_S = 5.0
"""How long a command waits for a session."""
_SESSION_S = 10.0
_PROBE = "ytf-check-"
_UNREACHABLE_HINT = (
    "check the address (--registry, or hadoop.registry.zk.quorum) and that the servers run; "
    "--registry rest needs no ZooKeeper"
)


def check_access(zookeeper: ZooKeeperAddress, *, user: str, name: str) -> None:
    """Raise unless a job of this user and name could register in a ZooKeeper now.

    ``UnreachableError`` if it does not answer, ``RefusedError`` if the user may not
    make znodes there. The znodes above the user's jobs are made, and stay.
    """
    parent = instance_path(zookeeper, user=user, name=name, job="").rstrip("/")
    with _session(zookeeper.servers) as client:
        _make_path(client, parent)
        # The same kinds of znodes that the job needs, in the place where it needs them.
        path = f"{parent}/{_PROBE}"
        try:
            made = client.create(path, b"", ephemeral=True, sequence=True)
            client.delete(made)
        except NoAuthError as error:
            raise _refused(parent) from error
        with contextlib.suppress(KazooException):
            client.delete(parent)  # unless other jobs have this name


def remove_job_znodes(zookeeper: ZooKeeperAddress, path: str, *, dryrun: bool = False) -> bool:
    """Remove the znodes of a job that has ended; returns whether there were any.

    With ``dryrun`` they stay. Raises ``UnreachableError`` or ``RefusedError`` if they cannot
    be removed.
    """
    with _session(zookeeper.servers) as client:
        if client.exists(path) is None:
            return False
        if dryrun:
            return True
        client.delete(path, recursive=True)
        with contextlib.suppress(KazooException):
            client.delete(path.rpartition("/")[0])  # unless other jobs have this name
    return True


@contextlib.contextmanager
def _session(servers: Sequence[str]) -> Iterator[KazooClient]:
    client = make_client(servers, session_s=_SESSION_S)
    try:
        client.start(timeout=CONNECT_S)
        yield client
    except (KazooTimeoutError, *DISCONNECTED) as error:
        raise UnreachableError(
            f"no ZooKeeper of the registry answers: {explain_unreachable(servers)}",
            hint=_UNREACHABLE_HINT,
        ) from error
    except KazooException as error:
        raise RefusedError(
            f"ZooKeeper ({','.join(servers)}) refuses it: {type(error).__name__} {error}"
        ) from error
    finally:
        end_client(client)


def _make_path(client: KazooClient, path: str) -> None:
    """Make a znode and those above it; the error names the znode that may not be made."""
    place = ""
    for element in path.strip("/").split("/"):
        above, place = place, f"{place}/{element}"
        try:
            # First: znodes above may be hidden from others.
            client.create(place, b"")
        except NodeExistsError:
            continue
        except NoAuthError as error:
            if client.exists(place) is None:
                raise _refused(above or "/") from error


def _refused(path: str) -> RefusedError:
    return RefusedError(
        f"you may not make znodes below {path} in ZooKeeper",
        hint="ask its administrators for that, or name another place: "
        "--registry 'zk://host:port?root=/path'",
    )
