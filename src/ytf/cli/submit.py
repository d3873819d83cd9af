"""``ytf-submit [OPTIONS] -r <requirement> <task_command>``."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence

from ytf.cli.failures import guarded
from ytf.cli.parser import Once, Parser, UsageError

PROG = "ytf-submit"

_DESCRIPTION = """\
Run a distributed TensorFlow job: the same command in every task, each knowing
where all the others are. Prints the job's id on stdout and returns as soon as
the job is accepted.

  task_command    what each task runs, as one word for bash: quote it. The
                  variables below are set in it.
"""

_EPILOG = """\
task execution environment:
  DTF_TASK_JOB_NAME   the task's group: ps, worker, …; the client's is client
  DTF_TASK_INDEX      its place in the group, from 0
  DTF_<GROUP>_HOSTS   host1:port1,host2:port2,… of each group, by index
  DTF_TASK_SCRIPT     the name of the file that -s shipped
  DTF_INPUT_PATH      as given with -i
  DTF_OUTPUT_PATH     as given with -o
  TF_CONFIG           the same for tf.distribute, unless --framework none
  YTF_TASK_PORT       the task's own port
  YTF_CLUSTER_SPEC_FILE   a JSON file with everything about the cluster

examples:
  ytf-submit -r ps:1,worker:2 -s train.py 'python $DTF_TASK_SCRIPT'
  ytf-submit -r ps:2,worker:4 -m 4096 -m 'worker[0]:16 GiB' -c worker:2 \\
             -t -o /shared/run1 'python /shared/train.py --dir "$DTF_OUTPUT_PATH"'
  ytf-submit -r ps:1,worker:2 --servers --client --client_command 'python -i explore.py'

Settings may also come from ytf.toml and YTF_* variables; see `ytf --help`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command's entry point; returns its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return guarded(PROG, lambda: _submit(words))


def parser() -> Parser:
    """Every option of the command."""
    p = Parser(
        prog=PROG,
        usage=f"{PROG} [OPTIONS] -r <requirement> <task_command>",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    p.add_argument("task_command", nargs="*", help=SUPPRESS)
    p.add_argument(
        "-r",
        "--cluster_requirement",
        metavar="<requirement>",
        action=Once,
        help="how many tasks of what: <group1>:<n1>,<group2>:<n2>,… such as ps:2,worker:4",
    )
    _add_resources(p)
    _add_placing(p)
    _add_data(p)
    _add_life(p)
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
        help="whatever else the cluster counts, with <name>=<n> for <n>: yarn.io/fpga=1",
    )


def _add_placing(p: Parser) -> None:
    g = p.add_argument_group("where tasks run, on a cluster")
    g.add_argument(
        "--placement",
        metavar="<placement>",
        action="append",
        help="[<group>:]any (default), spread (over as many nodes as can be had), pack (on as few "
        "as can be) or apart (never two on one node); repeatable",
    )
    g.add_argument(
        "--node_label",
        metavar="<label>",
        action="append",
        help="[<group>:]<label> of the nodes to use, the general one also for the master; "
        "'<group>:' for nodes without a label; repeatable",
    )
    g.add_argument(
        "--master_memory", metavar="<memory>", help="memory of the job's master (default 512)"
    )
    g.add_argument("--master_vcores", metavar="<n>", help="vcores of the master (default 1)")


def _add_data(p: Parser) -> None:
    g = p.add_argument_group("program and data")
    g.add_argument(
        "-i",
        "--input",
        metavar="<path>",
        action=Once,
        help="DTF_INPUT_PATH of the tasks: a path or URL, not interpreted, but that the local "
        "backend makes a relative path absolute: tasks run in a directory of their own",
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
        "--env",
        metavar="<env>",
        help="what python in the command is: node (the node's own, the default), current (the "
        "environment active here) or the path of a venv or conda environment",
    )
    g.add_argument(
        "--python",
        metavar="<path>",
        help="a Python on the nodes for ytf's own processes, which bring theirs by default; of "
        "the version that ytf runs on here. What python in the command is, --env says",
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
        help="tensorflow (default: TF_CONFIG is set and the port held for the program) or none",
    )
    g.add_argument(
        "-t",
        "--tensorboard",
        action="store_true",
        help="run TensorBoard on the output path as one more task; needs -o",
    )
    g.add_argument("--docker_image", metavar="<image>", help="run tasks in a Docker container")


def _add_life(p: Parser) -> None:
    g = p.add_argument_group("life of the job")
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
        help="groups whose end does not end the job, as it is with ps, evaluator and "
        "tensorboard: for programs that serve others and never exit",
    )
    g.add_argument(
        "--timeout",
        metavar="<seconds>",
        help="fail the job if it takes longer from its master's start (default: never)",
    )
    g.add_argument(
        "--lifetime",
        metavar="<seconds>",
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
        help="before jobs of the queue with a lower one; a cluster may cap it",
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
        help="who else may look at it: 'alice,bob admins' (users, then groups) or '*'",
    )
    g.add_argument("--acl_modify", metavar="<acl>", help="who else may kill it, likewise")
    g.add_argument(
        "--backend",
        metavar="<backend>",
        help="local or yarn (default: yarn if a Hadoop configuration is found, else local)",
    )
    g.add_argument(
        "--registry", metavar="<kind>", help="where tasks report: rest, the master (default)"
    )
    g.add_argument(
        "--wait",
        action="store_true",
        help="follow the job to its end; exit 0 only if it succeeded; Ctrl-C kills it, a closed "
        "terminal (SIGHUP) does not",
    )
    g.add_argument("--dryrun", action="store_true", help="print what would be submitted, and stop")
    g.add_argument("--json", action="store_true", help="with --dryrun: as JSON")
    g.add_argument("--version", action="store_true", help="print the version, and stop")


def parse(words: Sequence[str]) -> Namespace:
    """The options as given; raises :class:`UsageError` for what can be seen without a spec."""
    p = parser()
    # argparse of some versions forgets a "--" between options and words.
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
        raise UsageError("-r is missing: which tasks to run", hint="for example -r ps:1,worker:2")
    if command and not command[0].strip():
        raise UsageError("the task command is empty")
    if not command and not args.servers:
        raise UsageError(
            "the task command is missing", hint=f"{PROG} -r … 'python train.py', quoted"
        )
    if args.json and not args.dryrun:
        raise UsageError("--json goes with --dryrun only", hint="`ytf status ID --json` tells more")
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
    """Whether the first unknown option comes after a command's first word: then it is the
    command's, which was not quoted.
    """
    return bool(command) and words.index(unknown[0]) > words.index(command[0])


def _submit(words: Sequence[str]) -> int:
    args = parse(words)
    if args.version:
        from ytf.cli.version import version

        print(f"{PROG} {version()}")
        return 0
    # From here on it costs more than a moment, so not before the usage is right.
    from ytf.cli import options, submission
    from ytf.client import settings
    from ytf.errors import SpecError

    chosen = settings.load(options.settings_flags(args))
    try:
        return submission.submit(
            PROG,
            options.job_spec(args, chosen),
            chosen,
            wait=args.wait,
            dryrun=args.dryrun,
            json=args.json,
        )
    except SpecError as error:
        raise options.in_options(error, chosen) from error
