"""The command ``ytf-submit``: its options and their usage errors."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence

from ytf.cli.help.texts import submit_epilog
from ytf.cli.output import run_command
from ytf.cli.parser import Once, Parser, UsageError

PROG = "ytf-submit"

_DESCRIPTION = """\
Run a distributed TensorFlow job: the same command in every task, each knowing
where all the others are. Prints the job's id on stdout and returns as soon as
the job is accepted.

  task_command    what each task runs, by bash: quote it, so that it is one word.
                  The variables below are set in it.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return run_command(PROG, lambda: _submit(words))


def parser() -> Parser:
    """Every option of the command."""
    p = Parser(
        prog=PROG,
        usage=f"{PROG} [OPTIONS] -r <requirement> <task_command>",
        description=_DESCRIPTION,
        epilog=submit_epilog,
    )
    p.add_argument("task_command", nargs="*", help=SUPPRESS)
    p.add_argument(
        "-r",
        "--cluster_requirement",
        metavar="<requirement>",
        action=Once,
        help="the task groups and their sizes: <group1>:<n1>,<group2>:<n2>,… such as ps:2,worker:4",
    )
    _add_resources(p)
    _add_placing(p)
    _add_network(p)
    _add_data(p)
    _add_job_control(p)
    _add_submission(p)
    return p


def _add_resources(p: Parser) -> None:
    g = p.add_argument_group(
        "resources",
        "Each may be repeated or hold a comma-separated list of <n> (every task), <group>:<n>\n"
        "and <group>[<index>]:<n>; the most specific wins.",
    )
    g.add_argument(
        "-c", "--task_vcores", metavar="<vcores>", action="append", help="vcores (default 1)"
    )
    g.add_argument(
        "-m",
        "--task_memory",
        metavar="<memory>",
        action="append",
        help="memory in MB, or with a unit: '2 GiB' (default 8192; TensorBoard's 1024)",
    )
    g.add_argument("--task_gpus", metavar="<gpus>", action="append", help="GPUs (default 0)")
    g.add_argument(
        "--task_resources",
        metavar="<resources>",
        action="append",
        help="other resource types of the cluster, with <name>=<n> for <n>: yarn.io/fpga=1",
    )


def _add_placing(p: Parser) -> None:
    g = p.add_argument_group("where tasks run, on a cluster")
    g.add_argument(
        "--placement",
        metavar="<placement>",
        action="append",
        help="[<group>:]any (default), spread (over as many nodes as possible), pack (on as few as "
        "possible) or apart (never two on one node); repeatable",
    )
    g.add_argument(
        "--node_label",
        metavar="<label>",
        action="append",
        help="[<group>:]<label> of the nodes to use, the general one also for the master; "
        "'<group>:' for nodes without a label; repeatable",
    )
    g.add_argument(
        "--gpus_per_node",
        metavar="<n>",
        help="GPUs of each node that has some, if the ResourceManager does not count them; "
        "--node_label tells which nodes these are",
    )
    g.add_argument(
        "--master_memory", metavar="<memory>", help="memory of the job's master (default 512)"
    )
    g.add_argument("--master_vcores", metavar="<n>", help="vcores of the master (default 1)")


def _add_network(p: Parser) -> None:
    g = p.add_argument_group("network")
    g.add_argument(
        "--task_ports",
        metavar="<first>-<last>",
        help="the ports for the programs' servers (default: any free one)",
    )
    g.add_argument(
        "--control_ports",
        metavar="<first>-<last>",
        help="the ports on which ytf's own processes listen (default: any free one)",
    )
    g.add_argument(
        "--expose_ports",
        action="store_true",
        help="on the local backend, let other machines connect to the programs' servers; "
        "docs/security.md says what that means",
    )


def _add_data(p: Parser) -> None:
    g = p.add_argument_group("program and data")
    g.add_argument(
        "-i",
        "--input",
        metavar="<path>",
        action=Once,
        help="DTF_INPUT_PATH of the tasks: a path or URL; the local backend makes a relative path "
        "absolute, since tasks run in a directory of their own",
    )
    g.add_argument(
        "-o", "--output", metavar="<path>", action=Once, help="DTF_OUTPUT_PATH, likewise"
    )
    g.add_argument(
        "-s",
        "--script",
        metavar="<file>",
        action=Once,
        help="a file to ship, from here or, on YARN, by its hdfs:// URL; DTF_TASK_SCRIPT names it "
        "in the task's working directory",
    )
    g.add_argument(
        "--files",
        metavar="<list>",
        action="append",
        help="more files and directories to ship, comma-separated and repeatable: <path>, or "
        "<name>=<path> to ship it under another name",
    )
    g.add_argument(
        "--stage_in",
        metavar="<source>",
        action="append",
        help="[<group>:]<source>[:<dir>]: copy files into each task's working directory before "
        "its program starts: hdfs://namenode:8020/path, wildcards allowed; repeatable",
    )
    g.add_argument(
        "--stage_in_sharded",
        metavar="<source>",
        action="append",
        help="the same, but each task of a group gets a share of the files",
    )
    g.add_argument(
        "--stage_out",
        metavar="<output>",
        action="append",
        help="[<group>:]<dir>:<destination>: copy a directory of each task to HDFS after its "
        "program has ended with exit code 0; {job}, {group}, {index} and {task} in the "
        "destination are replaced; repeatable",
    )
    g.add_argument(
        "--sync_checkpoints",
        metavar="<sync>",
        action="append",
        help="[<group>:]<dir>:<destination>: keep a directory that a program writes in sync with "
        "HDFS while it runs, and restore it before it starts again; without a group, that of the "
        "first chief or worker; placeholders as in --stage_out",
    )
    g.add_argument(
        "--env",
        metavar="<env>",
        help="what python in the command is: node (the node's own, the default), current (the "
        "environment active here), the path of a venv or conda environment, or a file to make one "
        "from: requirements.txt, pyproject.toml, uv.lock, a pex file, a tar or zip of one (pex, "
        "tar and zip also in HDFS: hdfs://…)",
    )
    g.add_argument(
        "--python",
        metavar="<path>",
        help="a Python on the nodes for ytf's own processes, which bring theirs by default; of "
        "the version that ytf runs on here (--env sets what python in the command is)",
    )
    g.add_argument(
        "--task_env",
        metavar="<NAME=VALUE>",
        action="append",
        help="one more variable for every task; repeatable",
    )
    g.add_argument(
        "--framework",
        metavar="<name>",
        help="auto (default: found from the command and the script's imports, else tensorflow), "
        "tensorflow, pytorch, torchrun, jax, horovod, mpi or none: which variables programs get",
    )
    g.add_argument(
        "--processes",
        metavar="<[group:]number>",
        action="append",
        help="how many processes each task of all groups, or of one, runs (default 1), as "
        "torchrun --nproc_per_node; repeatable",
    )
    g.add_argument(
        "--no_hdfs_plugin",
        action="store_true",
        help="do not let TensorFlow open hdfs:// by ytf's plugin, which otherwise goes along if "
        "ytf-tensorflow-hdfs is installed here",
    )
    g.add_argument(
        "--libhdfs",
        action="store_true",
        help="set what programs need that read HDFS with the node's own Hadoop (CLASSPATH and "
        "others), as TensorFlow up to 2.5 and tensorflow-io do",
    )
    g.add_argument(
        "-t",
        "--tensorboard",
        action="store_true",
        help="run TensorBoard on the output path as one more task; needs -o",
    )
    g.add_argument(
        "--docker_image",
        metavar="<image>",
        help="run the command in containers of this image, with docker or podman on the nodes; "
        "HADOOP_HOME, HADOOP_CONF_DIR, JAVA_HOME and input and output paths that are not in HDFS "
        "are mounted",
    )
    g.add_argument(
        "--docker_engine",
        metavar="<engine>",
        help="docker, podman, or the path of such a command on the nodes (default: docker or, "
        "where that does not answer, podman)",
    )
    g.add_argument(
        "--docker_runtime",
        metavar="<name>",
        help="who runs the image: starter (default: ytf, with the node's engine) or yarn (YARN's "
        "own docker runtime, where the cluster has it)",
    )


def _add_job_control(p: Parser) -> None:
    g = p.add_argument_group("job control")
    g.add_argument(
        "--client",
        action="store_true",
        help="one more task here, with this terminal: group client, index 0, no port; waits for "
        "the job's end",
    )
    g.add_argument(
        "--client_command",
        metavar="<command>",
        action=Once,
        help="what the client runs, where it differs from task_command",
    )
    g.add_argument(
        "--servers",
        action="store_true",
        help="every task runs a stock TensorFlow server; task_command is the client's",
    )
    g.add_argument(
        "--on_failure",
        metavar="<policy>",
        action="append",
        help="[<group>:]fail-job (default), restart-task, restart-job or ignore; repeatable",
    )
    g.add_argument(
        "--max_restarts",
        metavar="<n>",
        action="append",
        help="[<group>:]how often a task may be restarted (default 3); repeatable",
    )
    g.add_argument(
        "--untracked",
        metavar="<groups>",
        action="append",
        help="groups whose end does not end the job: programs that serve others and never exit; "
        "ps, evaluator and tensorboard are so by default",
    )
    g.add_argument(
        "--timeout",
        metavar="<time>",
        help="fail the job if it takes longer from its master's start: 90 (seconds), 5m, 1h30m, 2d "
        "(default: never)",
    )
    g.add_argument(
        "--lifetime",
        metavar="<time>",
        help="let the cluster kill the job if it takes longer from submission, time in the queue "
        "included (default: never)",
    )
    g.add_argument(
        "--max_master_attempts",
        metavar="<n>",
        help="how often the master may be started within 10 minutes (default 4)",
    )


def _add_submission(p: Parser) -> None:
    g = p.add_argument_group("submission")
    g.add_argument("-q", "--queue", metavar="<queue>", help="the queue (default: default)")
    g.add_argument("-n", "--name", metavar="<name>", help="the job's name (default: TensorFlow)")
    g.add_argument(
        "--priority",
        metavar="<n>",
        help="the job goes before jobs of the queue with a lower one; a cluster may cap it",
    )
    g.add_argument(
        "--tags",
        metavar="<list>",
        action="append",
        help="words to find the job by, comma-separated and repeatable",
    )
    g.add_argument(
        "--acl_view",
        metavar="<acl>",
        help="who else may look at the job: 'alice,bob admins' (users, then groups) or '*'",
    )
    g.add_argument("--acl_modify", metavar="<acl>", help="who else may kill the job, likewise")
    g.add_argument(
        "--backend",
        metavar="<backend>",
        help="local or yarn (default: yarn if a Hadoop configuration is found, else local)",
    )
    g.add_argument(
        "--registry",
        metavar="<registry>",
        help="where tasks report: rest, the master (default), or a ZooKeeper: "
        "zk://host:port,host:port[/chroot], or zk for the one in Hadoop's configuration",
    )
    g.add_argument(
        "--wait",
        action="store_true",
        help="follow the job to its end; exit 0 only if it succeeded; Ctrl-C kills it, a closed "
        "terminal (SIGHUP) does not",
    )
    g.add_argument(
        "--logs", action="store_true", help="with --wait: show what the tasks write, on stderr"
    )
    g.add_argument("--dryrun", action="store_true", help="print what would be submitted, and stop")
    g.add_argument("--json", action="store_true", help="with --dryrun: as JSON")
    g.add_argument("--version", action="store_true", help="print the version, and stop")


def parse(words: Sequence[str]) -> Namespace:
    """The options as given; raises :class:`UsageError` for errors that show without a spec."""
    p = parser()
    # argparse of some Python versions drops a "--" between options and words.
    end = words.index("--") if "--" in words else len(words)
    args, unknown = p.parse_known_intermixed_args(list(words[:end]))
    args.task_command += words[end + 1 :]
    command: list[str] = args.task_command
    if unknown and not _in_command(words, unknown, command):
        p.error(f"unrecognized arguments: {' '.join(unknown)}")
    if len(command) > 1 or unknown:
        given = [word for word in words if word in command or word in unknown]
        raise UsageError(
            f"expected one task command, got {len(given)} words: {' '.join(given)}",
            hint="quote the command, so that the shell passes it as one word: "
            f"{PROG} -r … 'python train.py --steps 100'",
        )
    if args.version:
        return args
    if args.cluster_requirement is None:
        raise UsageError(
            "-r is missing: which tasks to run",
            hint=f"for example -r ps:1,worker:2; see {PROG} --help",
        )
    if command and not command[0].strip():
        raise UsageError("the task command is empty")
    if not command and not args.servers:
        raise UsageError(
            "the task command is missing", hint=f"{PROG} -r … 'python train.py', quoted"
        )
    if args.json and not args.dryrun:
        raise UsageError("--json goes with --dryrun only", hint="see `ytf status ID --json`")
    if args.logs and not args.wait:
        raise UsageError("--logs goes with --wait only", hint="see `ytf logs -f @last`")
    if args.client_command is not None and not args.client:
        raise UsageError("--client_command needs --client")
    if args.servers and command and not args.client:
        raise UsageError(
            "with --servers the task command is the client's, and there is no client",
            hint="add --client, or leave the command out and use `ytf attach` later",
        )
    if args.servers and args.client and not command and args.client_command is None:
        raise UsageError("the client has no command", hint="add it as the task command")
    return args


def _in_command(words: Sequence[str], unknown: Sequence[str], command: Sequence[str]) -> bool:
    """Whether the first unknown option follows the first word of the command.

    Then it belongs to a command that was not quoted.
    """
    return bool(command) and words.index(unknown[0]) > words.index(command[0])


def _submit(words: Sequence[str]) -> int:
    args = parse(words)
    if args.version:
        from ytf.cli.main import version

        print(f"{PROG} {version()}")
        return 0
    # These imports take longer than the usage check, so they come after it.
    from ytf.cli.submit import options
    from ytf.cli.submit.submit_spec import submit_spec
    from ytf.client import settings
    from ytf.errors import SpecError

    chosen = settings.load(options.settings_flags(args))
    try:
        return submit_spec(
            PROG,
            options.job_spec(args, chosen),
            chosen,
            wait=args.wait,
            logs=args.logs,
            dryrun=args.dryrun,
            json=args.json,
        )
    except SpecError as error:
        raise options.error_about_option(error, chosen) from error
