"""What hdfs-native says, in our words. The texts are as it said them."""

from __future__ import annotations

import pytest

from ytf.errors import OutcomeUnknownError, RefusedError, UnreachableError, YtfError
from ytf.storage import hdfs_errors
from ytf.storage.hdfs_errors import translate

RPC = 'RPCError("org.apache.hadoop.{}", "{}\\n\\tat org.apache.hadoop.X.y(X.java:1)\\n")'


def remote(java_class: str, said: str) -> RuntimeError:
    return RuntimeError(RPC.format(java_class, said).replace("\n", "\\n").replace("\t", "\\t"))


@pytest.mark.parametrize(
    ("raised", "kind", "base"),
    [
        (FileNotFoundError("/a"), hdfs_errors.HdfsNotFoundError, FileNotFoundError),
        (
            FileNotFoundError("Path is not a file: /a\n\tat X"),
            hdfs_errors.HdfsIsADirectoryError,
            IsADirectoryError,
        ),
        (
            FileExistsError("/a already exists\n\tat X"),
            hdfs_errors.HdfsExistsError,
            FileExistsError,
        ),
        (IsADirectoryError("/a"), hdfs_errors.HdfsIsADirectoryError, IsADirectoryError),
        (
            remote("security.AccessControlException", 'denied: user=bob, inode=\\"/\\":root'),
            hdfs_errors.HdfsPermissionError,
            PermissionError,
        ),
        (
            remote("security.AccessControlException", "/a/b (is not a directory)"),
            hdfs_errors.HdfsNotADirectoryError,
            NotADirectoryError,
        ),
        (
            remote("fs.PathIsNotEmptyDirectoryException", "`/a is non empty'"),
            hdfs_errors.HdfsNotEmptyError,
            OSError,
        ),
        (
            remote("hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /a is 1"),
            hdfs_errors.HdfsRefusedError,
            OSError,
        ),
        (
            remote("hdfs.server.namenode.SafeModeException", "Name node is in safe mode."),
            UnreachableError,
            OSError,
        ),
        (RuntimeError("NoSASLMechanism"), hdfs_errors.HdfsPermissionError, PermissionError),
        (OSError("Connection refused (os error 111)"), UnreachableError, OSError),
        (RuntimeError('OperationFailed("Failed to complete")'), UnreachableError, OSError),
    ],
)
def test_kinds(raised: Exception, kind: type[YtfError], base: type[OSError]) -> None:
    error = translate(raised, "write /a at hdfs://nn", changes=False, known=True)
    assert type(error) is kind
    assert isinstance(error, base)
    assert str(error).startswith("cannot write /a at hdfs://nn: ")
    assert "\n" not in str(error)
    assert "java" not in str(error)


def test_what_the_namenode_said_is_told_without_escapes() -> None:
    error = translate(
        remote("security.AccessControlException", 'user=bob, inode=\\"/\\u{fc}\\"'),
        "write /a",
        changes=True,
        known=True,
    )
    assert str(error) == 'cannot write /a: user=bob, inode="/ü"'


def test_an_unknown_class_is_named() -> None:
    error = translate(remote("x.OddException", "no"), "write /a", changes=True, known=True)
    assert isinstance(error, RefusedError)
    assert str(error) == "cannot write /a: no (OddException)"


def test_a_broken_connection_proves_nothing_about_a_change() -> None:
    # hdfs-native has tried twice: the first try may have been executed.
    broken = OSError("Connection refused (os error 111)")
    assert isinstance(translate(broken, "x", changes=True, known=True), OutcomeUnknownError)
    assert isinstance(translate(broken, "x", changes=False, known=True), UnreachableError)
    assert isinstance(translate(broken, "x", changes=True, known=False), UnreachableError)
    # Nor does the word of another NameNode, when the one that was asked first has died.
    standby = remote("ipc.StandbyException", "not supported in state standby")
    assert isinstance(translate(standby, "x", changes=True, known=True), OutcomeUnknownError)
    assert isinstance(translate(standby, "x", changes=False, known=True), UnreachableError)
    assert isinstance(translate(standby, "x", changes=True, known=False), UnreachableError)
