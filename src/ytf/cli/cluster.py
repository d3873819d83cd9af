"""``ytf cluster``: runs a real Hadoop on this machine, to try ytf without a cluster.

``ytf --help`` imports this module: what a command needs is imported when it runs.
"""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from ytf.cli.output import say
from ytf.cli.parser import Parser, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ytf.minicluster import ClusterOptions, MiniCluster

DEFAULT = "default"

_DESCRIPTION = """\
A real Hadoop on this machine: HDFS and YARN, each daemon a Java process of its own.
Needs Java 17 and, the first time, Maven and the network.
"""

_EPILOG = """\
All files of a cluster are in $YTF_HOME/clusters/<name>. The jars are in the directory
that YTF_HADOOP_CACHE names ($YTF_HOME/hadoop by default). To use a cluster in a shell:

  eval "$(ytf cluster env)"
"""


def add_arguments(cluster: Parser) -> None:
    """The commands below ``ytf cluster`` and their options."""
    cluster.description, cluster.make_epilog = _DESCRIPTION, lambda: _EPILOG
    commands = cluster.add_subparsers(title="commands", dest="cluster_command", metavar="<command>")

    def command(name: str, text: str) -> Parser:
        added: Parser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        added.add_argument(
            "--name", metavar="<name>", default=DEFAULT, help=f"which one (default {DEFAULT})"
        )
        return added

    _add_options(command("up", "start a cluster, and wait until it is ready"))
    down = command("down", "stop a cluster and remove it")
    down.add_argument("--keep", action="store_true", help="keep its data for the next up")
    status = command("status", "show the daemons; exit code 1 if one is dead")
    status.add_argument("--json", action="store_true", help="as JSON")
    command("env", "print the variables by which ytf and Hadoop's own commands find it")
    command("failover", "make the standby NameNode the active one")
    for name, text in (
        ("kill", "end one daemon with SIGKILL, to see what happens"),
        ("restart", "start one daemon again, and wait until it serves"),
    ):
        command(name, text).add_argument("daemon", metavar="DAEMON", help="e.g. rm, nm1, nn, dn")


def _add_options(up: Parser) -> None:
    add = up.add_argument
    add("--hadoop", metavar="<version>", help="3.3.6, 3.4.3 (default) or 3.5.0")
    add("--nodes", type=int, metavar="<n>", help="how many NodeManagers (default 2)")
    add("--memory", type=int, metavar="<MB>", help="memory of each node (default 32768)")
    add("--vcores", type=int, metavar="<n>", help="vcores of each node (default 32)")
    add("--gpus", type=int, metavar="<n>", help="GPUs of each node: counted, not real")
    add("--queues", metavar="<q:%,...>", help="e.g. default:60,ml:40")
    add("--preemption", action="store_true", help="let queues take their share back by force")
    add("--labels", metavar="<label=node,...>", help="e.g. gpu=nm2")
    add("--zookeeper", action="store_true", help="with a ZooKeeper")
    add("--ha", action="store_true", help="two ResourceManagers, two NameNodes and a ZooKeeper")
    add("--heap", type=int, metavar="<MB>", help="the greatest heap of each daemon (default 256)")
    add(
        "--share-classes",
        action="store_true",
        help="prepare Java for quicker starts: half a minute once, then a third less each time",
    )
    add(
        "-D",
        dest="properties",
        action="append",
        metavar="<key=value>",
        help="a property of Hadoop's configuration, repeatable",
    )


def run(args: Namespace) -> int:
    """Run one command of ``ytf cluster``; returns the exit code."""
    if args.cluster_command is None:
        raise UsageError("which command?", hint="see ytf cluster --help")
    from ytf.home import home_directory
    from ytf.minicluster.options import check_name

    directory = home_directory("clusters") / check_name(args.name)
    if args.cluster_command == "up":
        return _up(directory, args)
    if args.cluster_command == "down":
        return _down(directory, keep=args.keep)
    if args.cluster_command == "status":
        return _status(directory, json=args.json)
    if args.cluster_command == "env":
        return _env(directory)
    cluster = _open(directory)
    if args.cluster_command == "failover":
        _say(f"{cluster.fail_over_hdfs()} is the active NameNode")
        return 0
    if args.cluster_command == "kill":
        cluster.kill(args.daemon)
        _say(f"{args.daemon} is killed")
        return 0
    cluster.restart(args.daemon)
    _say(f"{args.daemon} serves again")
    return 0


def _say(text: str) -> None:
    say(f"ytf: {text}")


def _open(directory: Path) -> MiniCluster:
    from ytf.errors import NotFoundError
    from ytf.minicluster import MiniCluster

    try:
        return MiniCluster.open(directory, on_progress=_say)
    except NotFoundError:
        others = sorted(record.parent.name for record in directory.parent.glob("*/cluster.json"))
        raise NotFoundError(
            f"there is no cluster {directory.name}",
            hint=f"there is {', '.join(others)}: give one with --name"
            if others
            else "start one with: ytf cluster up",
        ) from None


def options_of(args: Namespace) -> ClusterOptions:
    """The options of ``up``; raises ``SpecError`` for values that make no sense."""
    from ytf.minicluster.options import ClusterOptions, parse_labels, parse_property, parse_queues

    given = {
        "version": args.hadoop,
        "nodes": args.nodes,
        "node_memory_mb": args.memory,
        "node_vcores": args.vcores,
        "gpus": args.gpus,
        "heap_mb": args.heap,
        "queues": None if args.queues is None else parse_queues(args.queues),
        "labels": None if args.labels is None else parse_labels(args.labels),
    }
    return ClusterOptions(
        preemption=args.preemption,
        zookeeper=args.zookeeper,
        ha=args.ha,
        properties=dict(map(parse_property, args.properties or [])),
        **{key: value for key, value in given.items() if value is not None},
    )


def _up(directory: Path, args: Namespace) -> int:
    import time

    from ytf.cli.interrupts import Interrupted, Interrupts
    from ytf.home import make_private_directory
    from ytf.minicluster import MiniCluster

    options = options_of(args)
    make_private_directory(directory.parent)
    begun = time.monotonic()
    kept = (directory / "cluster.json").exists()
    wanted = None if kept and options == type(options)() else options
    cluster = MiniCluster(directory, wanted, share_classes=args.share_classes, on_progress=_say)
    try:
        with Interrupts():
            cluster.start()
    except Interrupted as stop:
        cluster.stop(keep=kept)
        _say(f"stopped by {stop}: nothing was left running")
        return stop.exit_code
    _say(f"cluster {directory.name} is up in {time.monotonic() - begun:.0f} s")
    for daemon in (cluster.active_rm(), cluster.active_nn()):
        _say(f"{daemon.kind.title:<15} {daemon.web_url}")
    option = "" if directory.name == DEFAULT else f" --name {directory.name}"
    _say(f'to use it in this shell: eval "$(ytf cluster env{option})"')
    return 0


def _down(directory: Path, *, keep: bool) -> int:
    cluster = _open(directory)
    cluster.stop(keep=keep)
    _say(f"cluster {directory.name} is down" + (", its data is kept" if keep else ""))
    return 0


def _status(directory: Path, *, json: bool) -> int:
    from ytf.cli import tables

    cluster = _open(directory)
    daemons = cluster.status()
    if json:
        import msgspec

        document = {
            "name": directory.name,
            "hadoop": cluster.options.version,
            "directory": str(directory),
            "conf_dir": str(cluster.conf_dir),
            "hdfs": cluster.hdfs_url,
            "daemons": daemons,
        }
        tables.print_json(msgspec.json.encode(document))
    else:
        rows = [
            (
                one.name,
                one.kind,
                one.state,
                one.role or "",
                "" if one.pid is None else str(one.pid),
                " ".join(f"{name}:{port}" for name, port in one.ports.items()),
                one.web_url or "",
            )
            for one in daemons
        ]
        tables.show(("daemon", "kind", "state", "role", "pid", "ports", "web"), rows, sys.stdout)
    return 0 if all(one.pid is not None for one in daemons) else 1


def _env(directory: Path) -> int:
    for name, value in _open(directory).environ.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0
