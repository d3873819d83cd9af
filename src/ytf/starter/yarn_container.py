"""Turns what a YARN container provides into the configuration that every starter reads.

A NodeManager pastes environment values into a shell script as they are, so one
variable, ``YTF_LAUNCH``, carries everything as base64 of JSON: ``env`` and
``defaults`` are variables for the program (the latter only where the node sets
none), ``starter`` is what becomes ``YTF_STARTER``. The job's secret comes in
the container's credentials file, which only the container's user can read.
"""

from __future__ import annotations

import json
import os
from binascii import a2b_base64

from ytf.starter.config import CONTAINER_DIR, STARTER_VARIABLE, ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple

LAUNCH = "YTF_LAUNCH"
SCRIPT = "YTF_SCRIPT"
"""Holds the script that starts ytf's process, as base64: it becomes a file before it runs."""
SECRET_ALIAS = b"ytf.job.secret"
SECRET_FILE = CONTAINER_DIR + "/secret"
_TOKEN_FILE = b"HADOOP_TOKEN_FILE_LOCATION"
_TOKEN_FIELDS = 5  # alias, identifier, password, kind, service


def unpack(container: Dict[bytes, bytes]) -> Dict[bytes, bytes]:
    """Return the container's variables with those that ``YTF_LAUNCH`` carries, unpacked.

    Writes the job's secret into the working directory, for its owner only.
    Raises ``ConfigError`` if the container is not as YARN makes them.
    """
    environ = dict(container)
    environ.pop(SCRIPT.encode(), None)
    try:
        launch = json.loads(a2b_base64(environ.pop(LAUNCH.encode())))
        env, defaults, starter = launch["env"], launch["defaults"], dict(launch["starter"])
    except (ValueError, KeyError, TypeError) as exc:
        raise ConfigError("%s is not as the master makes it: %r" % (LAUNCH, exc)) from exc
    for name, value in defaults.items():
        environ.setdefault(os.fsencode(name), os.fsencode(value))
    for name, value in env.items():
        environ[os.fsencode(name)] = os.fsencode(value)
    here = os.getcwd()
    if not _is_home(os.fsdecode(environ.get(b"HOME", b""))):
        environ[b"HOME"] = os.fsencode(here)
    starter["secret_file"] = _keep_secret(os.fsdecode(_required(container, _TOKEN_FILE)), here)
    starter["host"] = os.fsdecode(_required(container, b"NM_HOST"))
    # YARN aggregates the logs of all these directories; any one of them will do.
    starter["log_dir"] = os.fsdecode(_required(container, b"LOG_DIRS")).split(",")[0]
    if starter.get("gpus"):
        starter["gpu_locks"] = _gpu_locks(os.fsdecode(_required(container, b"LOCAL_DIRS")))
    environ[STARTER_VARIABLE.encode()] = json.dumps(starter).encode()
    return environ


def _gpu_locks(local_dirs: str) -> str:
    """Return the directory for the locks of GPUs: the user's own on the node, if we may write it.

    It is above the applications' directories, ``…/usercache/<user>/appcache/<application>``.
    """
    application = min(local_dirs.split(","))
    user = os.path.dirname(os.path.dirname(application))
    return os.path.join(user if os.access(user, os.W_OK) else application, "ytf-gpus")


def _required(container: Dict[bytes, bytes], name: bytes) -> bytes:
    value = container.get(name)
    if not value:
        raise ConfigError("%s is not set, but YARN sets it in every container" % os.fsdecode(name))
    return value


def _is_home(path: str) -> bool:
    """Tell whether a directory can be a home; nodes give ``/home/`` if they know none."""
    return os.path.normpath(path) != "/home" and os.path.isdir(path) and os.access(path, os.W_OK)


def _keep_secret(token_file: str, here: str) -> str:
    path = os.path.join(here, SECRET_FILE)
    try:
        with open(token_file, "rb") as file:
            secret = read_secret(file.read())
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # A container that is started a second time has it already.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(path, flags, 0o600), "wb") as kept:
            kept.write(secret)
    except OSError as exc:
        raise ConfigError("the job's secret cannot be kept: %s" % exc) from exc
    except ValueError as exc:
        raise ConfigError("%s holds no secret of the job: %s" % (token_file, exc)) from exc
    return path


def read_secret(data: bytes) -> bytes:
    """Return the job's secret from the bytes of a credentials file; raises ``ValueError``.

    There are two versions of these files. NodeManagers write the first, in
    Hadoop's Writables (``Credentials.writeTokenStorageToStream``).
    """
    if data[:5] != b"HDTS\0":
        raise ValueError("it is no credentials file of version 0")
    position = 5
    tokens, position = _number(data, position)
    for _ in range(tokens * _TOKEN_FIELDS):
        _, position = _block(data, position)
    secrets, position = _number(data, position)
    for _ in range(secrets):
        alias, position = _block(data, position)
        secret, position = _block(data, position)
        if alias == SECRET_ALIAS and secret:
            return secret
    raise ValueError("there is no %s in it" % SECRET_ALIAS.decode())


def _block(data: bytes, position: int) -> Tuple[bytes, int]:
    length, position = _number(data, position)
    end = position + length
    if end > len(data):
        raise ValueError("it is cut short")
    return data[position:end], end


def _number(data: bytes, position: int) -> Tuple[int, int]:
    """Read a number as ``WritableUtils.readVInt`` does: one byte, or one that counts the rest."""
    if position >= len(data):
        raise ValueError("it is cut short")
    first = data[position]
    if first < 128:
        return first, position + 1
    follow = 144 - first  # as a signed byte: -112 - (first - 256)
    end = position + 1 + follow
    if not 1 <= follow <= 8 or end > len(data):
        raise ValueError("it has a length that makes no sense")
    return int.from_bytes(data[position + 1 : end], "big"), end
