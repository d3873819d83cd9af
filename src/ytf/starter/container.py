"""What a starter finds in a YARN container, made into what every starter is given.

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

from ytf.starter.config import ROOM, VARIABLE, ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple

LAUNCH = "YTF_LAUNCH"
SCRIPT = "YTF_SCRIPT"
"""The script that starts ytf's process, as base64: it becomes a file before that runs."""
SECRET_ALIAS = b"ytf.job.secret"
SECRET_FILE = ROOM + "/secret"
_TOKEN_FILE = b"HADOOP_TOKEN_FILE_LOCATION"
_TOKEN_FIELDS = 5  # alias, identifier, password, kind, service


def unpack(container: Dict[bytes, bytes]) -> Dict[bytes, bytes]:
    """The variables of a container, as if it had been started with all that was meant for it.

    Writes the job's secret into the working directory, for its owner only.
    Raises ``ConfigError`` where the container is not as YARN makes them.
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
    starter["secret_file"] = _keep_secret(os.fsdecode(_needed(container, _TOKEN_FILE)), here)
    starter["host"] = os.fsdecode(_needed(container, b"NM_HOST"))
    # Logs are gathered from all of these, from any one of them.
    starter["log_dir"] = os.fsdecode(_needed(container, b"LOG_DIRS")).split(",")[0]
    environ[VARIABLE.encode()] = json.dumps(starter).encode()
    return environ


def _needed(container: Dict[bytes, bytes], name: bytes) -> bytes:
    value = container.get(name)
    if not value:
        raise ConfigError("%s is not set, as YARN does in every container" % os.fsdecode(name))
    return value


def _is_home(path: str) -> bool:
    """Whether a directory can be somebody's; ``/home/`` is what nodes say for want of one."""
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
    """The job's secret in the bytes of a credentials file; raises ``ValueError``.

    Of the two versions there are, NodeManagers write the first, Hadoop's
    Writables (``Credentials.writeTokenStorageToStream``).
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
    """A count or length as ``WritableUtils.readVInt`` has it: one byte, or how many follow."""
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
