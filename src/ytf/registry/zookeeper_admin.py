"""What commands do in ZooKeeper: look whether a job can use it, and remove what dead jobs left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import (
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError

from ytf.errors import RefusedError, UnreachableError
from ytf.registry.zookeeper_client import (
    DISCONNECTED,
    end_client,
    explain_unreachable,
    make_client,
    was_too_long,
)
from ytf.specs.registry import ZooKeeperAddress, instance_path

CONNECT_S = 5.0
"""How long a command waits for a session."""
MOST_NODES = 20_000
"""How many znodes below a job's one command removes."""
MOST_CHARACTERS = 16 * 1000 * 1000
"""How many characters the names of all these znodes may have together."""
_SESSION_S = 10.0
_PROBE = "ytf-check-"
_UNREACHABLE_HINT = (
    "check the address (--registry, or hadoop.registry.zk.quorum) and that the servers run; "
    "--registry rest needs no ZooKeeper"
)


class ForeignNodesError(RefusedError):
    """Others have put more znodes below a job's than a command removes, or let nobody remove them.

    Some may be removed.
    """


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
    be removed, ``ForeignNodesError`` if others have put too much there.
    """
    with _session(zookeeper.servers) as client:
        if client.exists(path) is None:
            return False
        if dryrun:
            return True
        _remove_tree(client, path)
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


def _remove_tree(client: KazooClient, path: str) -> None:
    """Remove a znode and all below it, whatever others have put there: deep, wide, or both."""
    nodes = characters = 0
    # The names from the znode down to the one at work, and beside each those still to come. No
    # recursion, and no path is kept: names are as long, and trees as deep, as others like.
    names: list[str] = [path]
    waiting: list[list[str]] = [[]]
    while names:
        place = "/".join(names)
        try:
            with contextlib.suppress(NoNodeError):
                client.delete(place)
        except NoAuthError as error:
            raise _foreign(path, "rights that let nobody remove it") from error
        except NotEmptyError:
            children = _children(client, place, path)
            nodes += 1 + len(children)
            characters += sum(map(len, children))
            if nodes > MOST_NODES or characters > MOST_CHARACTERS:
                raise _foreign(path, f"more than {MOST_NODES} znodes below it") from None
            if children:
                names.append(children.pop())
                waiting.append(children)
            continue
        names.pop()
        if waiting[-1]:
            names.append(waiting[-1].pop())
        else:
            waiting.pop()


def _children(client: KazooClient, place: str, path: str) -> list[str]:
    try:
        return list(client.get_children(place))
    except NoNodeError:
        return []
    except NoAuthError as error:
        raise _foreign(path, "rights that let nobody read it") from error
    except DISCONNECTED as error:
        if was_too_long(client):
            raise _foreign(path, "too long a list of znodes below it") from error
        raise


def _foreign(path: str, what: str) -> ForeignNodesError:
    return ForeignNodesError(
        f"somebody else has given {path} {what}",
        hint="ask the administrators of ZooKeeper to remove it (`deleteall` of zkCli)",
    )


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
        "--registry 'zk://host:port?root=/path'; --registry rest runs the job without ZooKeeper",
    )
