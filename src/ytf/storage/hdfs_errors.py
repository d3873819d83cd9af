"""What hdfs-native raises, in the words of our own error tree.

hdfs-native knows a handful of Python's exceptions and says everything else in
a ``RuntimeError`` whose text is the Rust value, Java's class name and stack
trace included. Here that becomes an error which is both of ours (so that the
command line can show it) and the ``OSError`` that the storage ports promise.
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


class HdfsNotFoundError(NotFoundError, FileNotFoundError):
    """There is no such file or directory."""


class HdfsExistsError(RefusedError, FileExistsError):
    """Something is at that path already."""


class HdfsIsADirectoryError(RefusedError, IsADirectoryError):
    """A directory where a file was meant."""


class HdfsNotADirectoryError(RefusedError, NotADirectoryError):
    """A file where a directory was meant."""


class HdfsNotEmptyError(RefusedError, OSError):
    """A directory that was to be removed has something in it."""


class HdfsPermissionError(RefusedError, PermissionError):
    """The NameNode knows who asks, and does not let them; or it does not know who asks."""


class HdfsRefusedError(RefusedError, OSError):
    """The NameNode said no for another reason: a quota, a name it does not take."""


_QUOTED = r"(\"(?:[^\"\\]|\\.)*\")"
_RPC = re.compile(rf"(?:Fatal)?RPCError\({_QUOTED}, {_QUOTED}\)", re.DOTALL)
_NOT_NOW = ("StandbyException", "SafeModeException", "RetriableException")
_QUOTA = ("QuotaExceededException", "DSQuotaExceededException", "NSQuotaExceededException")
_NO_CREDENTIALS = ("SASLError", "GSSAPIError", "NoSASLMechanism")


def translate(exc: Exception, doing: str, *, changes: bool, known: bool) -> YtfError:
    """The error to raise from ``exc``, which came while ``doing`` something.

    ``changes`` says whether the call was to change anything; ``known``, whether
    this NameNode has ever answered. hdfs-native repeats a call whose connection
    broke, so with both of them a failure to connect proves nothing: the first
    try may have been executed.
    """
    text = str(exc)
    message = f"cannot {doing}: {_first_line(text)}"
    if isinstance(exc, FileNotFoundError):
        if "is not a file" in text:
            return HdfsIsADirectoryError(message)
        return HdfsNotFoundError(f"cannot {doing}: no such file or directory")
    if isinstance(exc, FileExistsError):
        return HdfsExistsError(message)
    if isinstance(exc, IsADirectoryError):
        return HdfsIsADirectoryError(message)
    remote = _RPC.search(text)
    if remote is not None:
        java_class, said = _unquoted(remote[1]), _unquoted(remote[2])
        return _from_namenode(java_class, said, doing, in_doubt=changes and known)
    if text.startswith(_NO_CREDENTIALS):
        return HdfsPermissionError(
            message, hint="the cluster wants credentials: kinit, or a delegation token"
        )
    if changes and known:
        return OutcomeUnknownError(message, hint=_LOOK)
    return UnreachableError(message, hint=_REACH)


def late(doing: str, timeout_s: float, *, changes: bool) -> YtfError:
    """The error for a call that was not answered in time."""
    message = f"cannot {doing}: no answer within {timeout_s:g} s"
    if changes:
        return OutcomeUnknownError(message, hint=_LOOK)
    return UnreachableError(message, hint=_REACH)


_REACH = "see whether the NameNode runs, and whether fs.defaultFS or the URL names the right one"
_NOT_YET = "the NameNode is starting or stands by"
_LOOK = "it may or may not have been done: look before doing it again"


def _from_namenode(java_class: str, said: str, doing: str, *, in_doubt: bool) -> YtfError:
    name = java_class.rpartition(".")[2]
    message = f"cannot {doing}: {_first_line(said) or name}"
    if "is not a directory" in said:
        # An AccessControlException or a ParentNotDirectoryException, by the call.
        return HdfsNotADirectoryError(message)
    if "must both be directories" in said or "must both be files" in said:
        # A rename onto something of the other kind.
        return HdfsExistsError(message)
    if name in ("AccessControlException", "AuthorizationException", "InvalidToken"):
        return HdfsPermissionError(
            message, hint="HADOOP_USER_NAME says who asks, on a cluster without Kerberos"
        )
    if name == "PathIsNotEmptyDirectoryException":
        return HdfsNotEmptyError(message)
    if name in _NOT_NOW:
        # It may have been executed by one that then died, and repeated to this one.
        if in_doubt:
            return OutcomeUnknownError(message, hint=f"{_NOT_YET}; {_LOOK}")
        return UnreachableError(message, hint=f"{_NOT_YET}: try again")
    if name in _QUOTA:
        return HdfsRefusedError(message, hint="remove something, or ask for a higher quota")
    return HdfsRefusedError(f"{message} ({name})" if name not in message else message)


def _first_line(text: str) -> str:
    """What Java said, without the stack trace."""
    return re.split(r"\n|\\n", text, maxsplit=1)[0].strip()


def _unquoted(literal: str) -> str:
    """The text of a Rust string literal, whose escapes are nearly JSON's."""
    try:
        return str(json.loads(re.sub(r"\\u\{([0-9a-f]+)\}", _json_escape, literal)))
    except ValueError:
        return literal.strip('"')


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(chr(int(found[1], 16)))[1:-1]
