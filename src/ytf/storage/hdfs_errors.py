"""Translates the errors of hdfs-native.

It raises a few of Python's own exceptions. For everything else it raises a
``RuntimeError`` whose text is the Rust value, with Java's class name and stack
trace. They become errors that are both ``YtfError``s, which the command line can
show, and the ``OSError``s that the storage ports promise.
"""

from __future__ import annotations

import json
import re

from ytf.errors import (
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
    YtfError,
)

# The texts of its errors, and the hints of ours.
_QUOTED = r"(\"(?:[^\"\\]|\\.)*\")"
_RPC = re.compile(rf"(?:Fatal)?RPCError\({_QUOTED}, {_QUOTED}\)", re.DOTALL)
NOT_NOW = ("StandbyException", "SafeModeException", "RetriableException")
"""What a NameNode raises that may answer a moment later."""
_QUOTA = ("QuotaExceededException", "DSQuotaExceededException", "NSQuotaExceededException")
_NO_CREDENTIALS = ("SASLError", "GSSAPIError", "NoSASLMechanism")
_DATANODE = re.compile(r'ip_addr: \\?"([^"\\]+)\\?".*?xfer_port: (\d+)', re.DOTALL)
_STRUCTURE = re.compile(r"\[?\b[A-Z]\w+(?: \{|\()")
_MESSAGE = re.compile(r'\b(?:message|error): "((?:[^"\\]|\\.)*)"')
_REACH = "check that HDFS runs, NameNode and DataNodes, and that fs.defaultFS or the URL names it"
_NOT_YET = "the NameNode is starting or is a standby"
_LOOK = "it may or may not have been done: check before doing it again"


class HdfsNotFoundError(NotFoundError, FileNotFoundError):
    """There is no such file or directory."""


class HdfsExistsError(RefusedError, FileExistsError):
    """The path exists already."""


class HdfsIsADirectoryError(RefusedError, IsADirectoryError):
    """The path is a directory, but the call needs a file."""


class HdfsNotADirectoryError(RefusedError, NotADirectoryError):
    """The path is a file, but the call needs a directory."""


class HdfsNotEmptyError(RefusedError, OSError):
    """The directory to be removed is not empty."""


class HdfsPermissionError(RefusedError, PermissionError):
    """The user has no permission, or the NameNode did not accept the credentials."""


class HdfsRefusedError(RefusedError, OSError):
    """The NameNode refused for another reason, such as a quota or an invalid name."""


def translate_error(
    exc: Exception, action: str, *, changes: bool, answered_before: bool
) -> YtfError:
    """Return the error to raise from ``exc``; ``action`` completes "cannot …".

    ``changes`` says whether the call changes anything, ``answered_before``
    whether this NameNode has ever answered. hdfs-native repeats a call whose
    connection broke. So if both are true, a failure to connect proves nothing:
    the first try may have been executed.
    """
    text = str(exc)
    message = f"cannot {action}: {_in_words(text)}"
    if isinstance(exc, FileNotFoundError):
        if "is not a file" in text:
            return HdfsIsADirectoryError(message)
        return HdfsNotFoundError(f"cannot {action}: no such file or directory")
    if isinstance(exc, FileExistsError):
        return HdfsExistsError(message)
    if isinstance(exc, IsADirectoryError):
        return HdfsIsADirectoryError(message)
    remote = _RPC.search(text)
    if remote is not None:
        java_class, said = _unquoted(remote[1]), _unquoted(remote[2])
        return _from_namenode(java_class, said, action, in_doubt=changes and answered_before)
    if text.startswith(_NO_CREDENTIALS):
        return HdfsPermissionError(
            message, hint="the cluster requires credentials: run kinit, or use a delegation token"
        )
    if changes and answered_before:
        return OutcomeUnknownError(message, hint=_LOOK)
    return UnreachableError(message, hint=_REACH)


def timeout_error(action: str, timeout_s: float, *, changes: bool) -> YtfError:
    """Return the error for a call that was not answered in time."""
    message = f"cannot {action}: no answer within {timeout_s:g} s"
    if changes:
        return OutcomeUnknownError(message, hint=_LOOK)
    return UnreachableError(message, hint=_REACH)


def _from_namenode(java_class: str, said: str, action: str, *, in_doubt: bool) -> YtfError:
    name = java_class.rpartition(".")[2]
    message = f"cannot {action}: {_first_line(said) or name}"
    if "is not a directory" in said:
        # Depending on the call, an AccessControlException or a ParentNotDirectoryException.
        return HdfsNotADirectoryError(message)
    if "must both be directories" in said or "must both be files" in said:
        # A rename of a file onto a directory, or of a directory onto a file.
        return HdfsExistsError(message)
    if name in ("AccessControlException", "AuthorizationException", "InvalidToken"):
        return HdfsPermissionError(
            message, hint="on a cluster without Kerberos, HADOOP_USER_NAME sets the user"
        )
    if name == "PathIsNotEmptyDirectoryException":
        return HdfsNotEmptyError(message)
    if name in NOT_NOW:
        # A NameNode that died may have executed it before it was repeated to this one.
        if in_doubt:
            return OutcomeUnknownError(message, hint=f"{_NOT_YET}; {_LOOK}")
        return UnreachableError(message, hint=f"{_NOT_YET}: try again")
    if name in _QUOTA:
        return HdfsRefusedError(message, hint="remove files, or ask for a higher quota")
    return HdfsRefusedError(f"{message} ({name})" if name not in message else message)


def _in_words(text: str) -> str:
    """Return what a text of hdfs-native says, without the Rust values in it.

    ``DataTransferError("All DataNodes failed: [DatanodeInfoProto { … }]")`` is
    "All DataNodes failed: 127.0.0.1:9866".
    """
    quoted = re.fullmatch(rf"(\w+)\({_QUOTED}\)", text, re.DOTALL)
    words = _first_line(_unquoted(quoted[2]) if quoted else text)
    words = re.sub(r" \(os error \d+\)", "", words)
    structure = _STRUCTURE.search(words)
    if structure is None:
        # A single word, such as a path, says nothing without the name of the error.
        return f"{quoted[1]}: {words}" if quoted and " " not in words else words
    told = [f"{host}:{port}" for host, port in dict.fromkeys(_DATANODE.findall(words))]
    told = told or _MESSAGE.findall(words) or [structure[0].strip("[({ ")]
    beginning = words[: structure.start()].strip(" :,")
    return ": ".join(filter(None, (beginning, ", ".join(told))))


def _first_line(text: str) -> str:
    """Return the message of the Java exception without its stack trace."""
    return re.split(r"\n|\\n", text, maxsplit=1)[0].strip()


def _unquoted(literal: str) -> str:
    """Decode a Rust string literal; its escapes are nearly those of JSON."""
    try:
        return str(json.loads(re.sub(r"\\u\{([0-9a-f]+)\}", _json_escape, literal)))
    except ValueError:
        return literal.strip('"')


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(chr(int(found[1], 16)))[1:-1]
