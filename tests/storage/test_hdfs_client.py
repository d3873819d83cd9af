"""Calls to HDFS always end, and failures are our own errors. The texts of errors are real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hdfs_native import AclEntry

from ytf.errors import OutcomeUnknownError, RefusedError, SettingsError, UnreachableError, YtfError
from ytf.hadoop.conf import Configuration
from ytf.minicluster import MiniCluster
from ytf.minicluster.daemons import free_ports
from ytf.storage import hdfs_client, hdfs_errors
from ytf.storage.hdfs import HdfsBlobs, HdfsFiles
from ytf.storage.hdfs_client import HdfsClient
from ytf.storage.hdfs_errors import translate_error
from ytf.testing.waiting import eventually

NOTHING = Configuration.of({})
RPC = 'RPCError("org.apache.hadoop.{}", "{}\\n\\tat org.apache.hadoop.X.y(X.java:1)\\n")'


@pytest.fixture
def silent() -> Iterator[str]:
    """A peer that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"hdfs://127.0.0.1:{server.getsockname()[1]}"


def threads_of_this_process() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_peer_that_says_nothing_does_not_hang_us(silent: str) -> None:
    files = HdfsFiles(HdfsClient(silent, NOTHING, timeout_s=0.3))
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"look at /x at hdfs://.*no answer within 0.3 s"):
        files.stat("/x")
    with pytest.raises(OutcomeUnknownError, match="no answer"):
        files.delete("/x")
    with pytest.raises(OSError, match="no answer"):
        HdfsBlobs(files.client, "/x").write("a", b"x")
    assert time.monotonic() - began < 60


def test_a_command_waits_once_for_a_namenode_that_says_nothing(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_client, "_SILENT_AGAIN_S", 0.1)
    files = HdfsFiles(HdfsClient(silent, NOTHING, answer_s=30.0))
    monkeypatch.setattr(files.client, "_answer_s", 0.5)
    with pytest.raises(UnreachableError, match=r"no answer within 0\.5 s"):
        files.stat("/x")
    monkeypatch.setattr(files.client, "_answer_s", 30.0)
    with pytest.raises(UnreachableError, match=r"no answer within 0\.1 s"):
        files.stat("/x")
    # Each of several has its share, and not even a standby answers.
    conf = Configuration.of(
        {
            "dfs.ha.namenodes.both": "nn1,nn2",
            "dfs.namenode.rpc-address.both.nn1": silent.removeprefix("hdfs://"),
            "dfs.namenode.rpc-address.both.nn2": silent.removeprefix("hdfs://"),
        }
    )
    both = HdfsFiles(HdfsClient("hdfs://both", conf, answer_s=0.4))
    with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
        both.stat("/x")


def test_a_command_waits_for_a_standby_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_client, "_FAILOVER_PAUSE_S", 0.0)
    says = [remote("ipc.StandbyException", "not me"), *[OSError("Connection refused")] * 3]
    said = list(says)

    async def answer(native: object) -> str:
        if said:
            raise said.pop(0)
        return "answered"

    monkeypatch.setattr(hdfs_client._ClientThread, "_client", lambda thread, key: None)
    conf = Configuration.of({"dfs.ha.namenodes.both": "a,b"})
    client = HdfsClient("hdfs://both", conf, answer_s=0.0)
    monkeypatch.setattr(client, "_answer_limit_s", lambda: 30.0)
    assert client.call("ask", answer, changes=False, repeatable=True) == "answered"
    said = says[1:]
    with pytest.raises(UnreachableError, match="refused"):
        client.call("ask", answer, changes=False, repeatable=True)


def test_what_timed_out_is_destroyed_after_a_rest(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a cancelled call to let go of its client, even on a busy machine.
    monkeypatch.setattr(hdfs_client, "_RETIRED_S", 2.0)
    files = HdfsFiles(HdfsClient(silent, NOTHING, timeout_s=0.05))
    before = threads_of_this_process()
    errors = []
    for _ in range(100):
        with pytest.raises(UnreachableError) as caught:
            files.stat("/x")
        # Whoever keeps the error keeps what it refers to, as a cycle would until it is collected.
        errors.append(caught.value)
    # Each client has a thread for each processor; forty may be resting.
    assert threads_of_this_process() <= before + 60 * (os.cpu_count() or 1)


def test_nobody_there() -> None:
    files = HdfsFiles.open(f"hdfs://127.0.0.1:{free_ports(1)[0]}", NOTHING)
    with pytest.raises(UnreachableError, match="Connection refused") as caught:
        files.delete("/x")
    assert caught.value.hint is not None


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(UnreachableError, match=r"no-such-host\.invalid"):
        HdfsFiles.open("hdfs://no-such-host.invalid:8020", NOTHING).stat("/")


def test_the_next_namenode_is_asked_when_one_says_nothing(hadoop: MiniCluster, silent: str) -> None:
    conf = Configuration.of(
        {
            "dfs.ha.namenodes.both": "nn1, nn2",
            "dfs.namenode.rpc-address.both.nn1": silent.removeprefix("hdfs://"),
            "dfs.namenode.rpc-address.both.nn2": hadoop.hdfs_url.removeprefix("hdfs://"),
        }
    )
    files = HdfsFiles(HdfsClient("hdfs://both", conf, timeout_s=1.0))
    with pytest.raises(OutcomeUnknownError, match="no answer"):
        files.rename("/x", "/y")
    assert files.stat("/").is_directory
    # A repeatable call is repeated at the next NameNode.
    assert HdfsFiles(HdfsClient("hdfs://both", conf, timeout_s=1.0)).stat("/").is_directory


@pytest.mark.parametrize(
    ("url", "conf", "authority"),
    [
        ("hdfs://nn:9000/a", {}, "hdfs://nn:9000"),
        ("hdfs://nn/a", {}, "hdfs://nn:8020"),
        ("hdfs:///a", {"fs.defaultFS": "hdfs://nn:9000/"}, "hdfs://nn:9000"),
        ("hdfs:///a", {"fs.defaultFS": "hdfs://nn"}, "hdfs://nn:8020"),
        ("hdfs:///a", {"fs.defaultFS": "hdfs://ns", "dfs.ha.namenodes.ns": "a,b"}, "hdfs://ns"),
    ],
)
def test_which_namenode_is_meant(url: str, conf: dict[str, str], authority: str) -> None:
    assert HdfsClient(url, Configuration.of(conf)).authority == authority


@pytest.mark.parametrize("default", ["file:///", "s3a://bucket", ""])
def test_no_namenode_is_named(default: str) -> None:
    with pytest.raises(SettingsError, match="names no NameNode"):
        HdfsClient("hdfs:///a", Configuration.of({"fs.defaultFS": default}))


def test_not_hdfs() -> None:
    with pytest.raises(SettingsError, match="not an hdfs:// URL"):
        HdfsClient("s3a://bucket/a", NOTHING)


def test_a_nameservice_without_addresses() -> None:
    client = HdfsClient("hdfs://ns", Configuration.of({"dfs.ha.namenodes.ns": "a,b"}))
    with pytest.raises(SettingsError, match="hdfs://ns cannot be used"):
        HdfsFiles(client).stat("/")


def test_goes_on_when_a_hung_namenode_does(hadoop: MiniCluster) -> None:
    files = HdfsFiles(HdfsClient(hadoop.hdfs_url, NOTHING, timeout_s=1.0))
    assert files.stat("/").is_directory
    hadoop.kill("nn", signal.SIGSTOP)
    try:
        with pytest.raises(UnreachableError, match="no answer"):
            files.stat("/")
    finally:
        hadoop.kill("nn", signal.SIGCONT)
    patient = HdfsFiles(HdfsClient(hadoop.hdfs_url, NOTHING))
    assert patient.stat("/").is_directory
    assert eventually(lambda: files.stat("/").is_directory)


FORKING = """
import os, sys
from ytf.hadoop.conf import Configuration
from ytf.storage.hdfs import HdfsFiles

files = HdfsFiles.open(sys.argv[1], Configuration.of({}))
assert files.stat("/").is_directory
child = os.fork()
assert files.stat("/").is_directory
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_works_after_a_fork_and_ends(hadoop: MiniCluster) -> None:
    # As a script of its own, both processes ending as any program does.
    done = subprocess.run(
        [sys.executable, "-c", FORKING, hadoop.hdfs_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_of_the_process_waits_for_results_that_are_being_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Python ends a thread that wants to go on during its own end, and a native one aborts then.
    entered, may_go_on = threading.Event(), threading.Event()

    def slow(loop: object, callback: object, *args: object, **rest: object) -> None:
        entered.set()
        may_go_on.wait(60)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "call_soon_threadsafe", slow)
    clients = hdfs_client._client_thread()
    monkeypatch.setattr(hdfs_client, "_QUIET_S", 60.0)
    native = threading.Thread(target=clients._loop.call_soon_threadsafe, args=(print,))
    native.start()
    assert entered.wait(60)
    ending = threading.Thread(target=hdfs_client._before_exit)
    ending.start()
    ending.join(0.1)
    assert ending.is_alive()
    may_go_on.set()
    native.join(60)
    ending.join(60)
    assert not ending.is_alive()


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
def test_kinds_of_errors(raised: Exception, kind: type[YtfError], base: type[OSError]) -> None:
    error = translate_error(raised, "write /a at hdfs://nn", changes=False, answered_before=True)
    assert type(error) is kind
    assert isinstance(error, base)
    assert str(error).startswith("cannot write /a at hdfs://nn: ")
    assert "\n" not in str(error)
    assert "java" not in str(error)


def test_what_the_namenode_said_is_told_without_escapes() -> None:
    error = translate_error(
        remote("security.AccessControlException", 'user=bob, inode=\\"/\\u{fc}\\"'),
        "write /a",
        changes=True,
        answered_before=True,
    )
    assert str(error) == 'cannot write /a: user=bob, inode="/ü"'


def test_an_unknown_class_is_named() -> None:
    error = translate_error(
        remote("x.OddException", "no"), "write /a", changes=True, answered_before=True
    )
    assert isinstance(error, RefusedError)
    assert str(error) == "cannot write /a: no (OddException)"


def test_a_broken_connection_proves_nothing_about_a_change() -> None:
    # hdfs-native has tried twice: the first try may have been executed.
    broken = OSError("Connection refused (os error 111)")
    assert isinstance(
        translate_error(broken, "x", changes=True, answered_before=True), OutcomeUnknownError
    )
    assert isinstance(
        translate_error(broken, "x", changes=False, answered_before=True), UnreachableError
    )
    assert isinstance(
        translate_error(broken, "x", changes=True, answered_before=False), UnreachableError
    )
    # Nor does the answer of another NameNode, if the first one has died.
    standby = remote("ipc.StandbyException", "not supported in state standby")
    assert isinstance(
        translate_error(standby, "x", changes=True, answered_before=True), OutcomeUnknownError
    )
    assert isinstance(
        translate_error(standby, "x", changes=False, answered_before=True), UnreachableError
    )
    assert isinstance(
        translate_error(standby, "x", changes=True, answered_before=False), UnreachableError
    )


DATANODE = (
    r"DatanodeInfoProto { id: DatanodeIdProto { ip_addr: \"127.0.0.%d\", host_name: \"localhost\","
    r" datanode_uuid: \"031b-04\", xfer_port: 14356, info_secure_port: Some(0) },"
    r" capacity: Some(270553174016), admin_state: Some(Normal), upgrade_domain: None }"
)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            f'DataTransferError("All DataNodes failed: [{DATANODE % 1}, {DATANODE % 2}]")',
            "All DataNodes failed: 127.0.0.1:14356, 127.0.0.2:14356",
        ),
        (
            'IOError(Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })',
            "Connection refused",
        ),
        ("Connection refused (os error 111)", "Connection refused"),
        ('OperationFailed("Failed to complete")', "Failed to complete"),
        ('BlocksNotFound("/a")', "BlocksNotFound: /a"),
        ("UrlParseError(RelativeUrlWithoutBase)", "UrlParseError"),
        ("There are 1 datanode(s) running", "There are 1 datanode(s) running"),
    ],
)
def test_no_rust_is_printed(raised: str, said: str) -> None:
    error = translate_error(RuntimeError(raised), "read /a", changes=False, answered_before=True)
    assert str(error) == f"cannot read /a: {said}"


class AclClient:
    """A client whose NameNode answers a question for an access control list."""

    def __init__(self, *entries: AclEntry, error: str = "") -> None:
        self._entries = entries
        self._error = error

    def call(
        self, action: str, work: Callable[[Any], Awaitable[Any]], *, changes: bool, repeatable: bool
    ) -> Any:
        try:
            return asyncio.run(self._await(work))
        except RuntimeError as exc:
            raise translate_error(exc, action, changes=False, answered_before=True) from exc

    async def _await(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        return await work(self)

    async def get_acl_status(self, path: str) -> object:
        if self._error:
            raise RuntimeError(self._error)
        return SimpleNamespace(entries=list(self._entries))


def test_who_can_write_by_an_access_control_list() -> None:
    client = AclClient(
        AclEntry("user", "access", "rwx", "eve"),
        AclEntry("user", "access", "r-x", "reader"),
        AclEntry("group", "access", "-w-", "staff"),
        AclEntry("group", "access", "rwx"),
        AclEntry("user", "default", "rwx", "later"),
    )
    files = HdfsFiles(cast(HdfsClient, client))
    assert files.acl_writers("/user/ann") == ("user:eve", "group:staff")


def test_a_namenode_without_access_control_lists() -> None:
    disabled = RPC.format(
        "hdfs.protocol.AclException",
        "The ACL operation has been rejected.  Support for ACLs has been disabled by setting "
        "dfs.namenode.acls.enabled to false.",
    )
    assert HdfsFiles(cast(HdfsClient, AclClient(error=disabled))).acl_writers("/x") == ()
    refused = RPC.format("hdfs.protocol.AclException", "Invalid ACL")
    with pytest.raises(RefusedError, match="Invalid ACL"):
        HdfsFiles(cast(HdfsClient, AclClient(error=refused))).acl_writers("/x")
