"""``ytf``: everything about jobs but their submission by options (that is ``ytf-submit``).

Start-up time counts: nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from ytf.cli import cluster
from ytf.cli.failures import guarded
from ytf.cli.parser import Parser, UsageError

PROG = "ytf"

_DESCRIPTION = """\
Distributed TensorFlow jobs on Hadoop YARN and on this machine.
`ytf-submit` submits a job by options; the commands here do everything else.
"""

_EPILOG = """\
settings, the strongest first: options, YTF_<SETTING> variables, the nearest ytf.toml
from the working directory upward, $YTF_HOME/ytf.toml (YTF_HOME: ~/.ytf by default).
Known are backend, queue, name, env, registry, framework, task_vcores, task_memory,
history_days.

exit codes: 0 done, 1 refused, not found or the job failed, 2 wrong usage, settings or
surroundings (a full disk, say), 130 interrupted, 70 a bug in ytf.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command's entry point; returns its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return guarded(PROG, lambda: _run(words))


def parser() -> Parser:
    """Every command and its options."""
    p = Parser(prog=PROG, description=_DESCRIPTION, epilog=_EPILOG)
    p.add_argument("--version", action="store_true", help="print the version, and stop")
    commands = p.add_subparsers(title="commands", dest="command", metavar="<command>")

    def command(name: str, text: str, *, job: bool = True) -> Parser:
        added: Parser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        if job:
            added.add_argument("id", metavar="ID", help="the job's id")
        return added

    submit = command("submit", "submit the job a YAML or JSON file describes", job=False)
    submit.add_argument(
        "file",
        metavar="FILE",
        help="relative paths in it are relative to its directory; - is stdin",
    )
    submit.add_argument("--wait", action="store_true", help="follow the job; Ctrl-C kills it")
    submit.add_argument("--dryrun", action="store_true", help="print what would be submitted")
    submit.add_argument("--json", action="store_true", help="with --dryrun: as JSON")
    submit.add_argument("-n", "--name", metavar="<name>", help="in place of the file's name")
    submit.add_argument("-q", "--queue", metavar="<queue>", help="in place of the file's queue")
    submit.add_argument("--backend", metavar="<backend>", help="local or yarn")

    status = command("status", "how a job and its tasks are, also after its end")
    status.add_argument("--json", action="store_true", help="as JSON")

    list_ = command("list", "the jobs that are known, newest first", job=False)
    list_.add_argument("--json", action="store_true", help="as JSON")
    list_.add_argument("--backend", metavar="<backend>", help="local or yarn")

    logs = command("logs", "what the tasks wrote: `worker:0 | stdout`, `worker:0 ! stderr`")
    # Without a default argparse would call them required when the ID is missing.
    logs.add_argument(
        "tasks", metavar="GROUP[:INDEX]", nargs="*", default=[], help="only these tasks"
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    logs.add_argument(
        "--tail", metavar="<n>", help="only the last n lines of each task's stdout and stderr"
    )

    kill = command("kill", "end jobs", job=False)
    kill.add_argument("ids", metavar="ID", nargs="+", help="the jobs' ids")
    command("spec", "who is where: the cluster spec, as JSON")

    events = command("events", "a job's story")
    events.add_argument("--json", action="store_true", help="as JSON")

    attach = command("attach", "run one more client of a running job here")
    attach.add_argument("task_command", metavar="COMMAND", nargs="*", help="quoted, as one word")
    attach.add_argument(
        "--index", metavar="<n>", default="1", help="its DTF_TASK_INDEX (default 1)"
    )

    command("schema", "print the JSON schema of job files", job=False)
    gc = command("gc", "remove what nobody needs any more: leftovers of jobs, layers", job=False)
    gc.add_argument("--dryrun", action="store_true", help="only tell what would be removed")
    gc.add_argument(
        "--verify",
        action="store_true",
        help="read all layers that are stored at the cluster, and have damaged ones replaced",
    )
    gc.add_argument("--backend", metavar="<backend>", help="local or yarn")
    cluster.add_arguments(command("cluster", "a real Hadoop on this machine", job=False))
    return p


def _run(words: Sequence[str]) -> int:
    args = parse(words)
    if args.version:
        from ytf.cli.version import version

        print(f"{PROG} {version()}")
        return 0
    if args.command == "schema":
        return _schema()
    if args.command == "cluster":
        return cluster.run(args)

    from ytf.cli import jobs
    from ytf.cli.sweeping import sweep

    if args.command == "gc":
        from ytf.cli.gc import gc

        return gc(backend=args.backend, dryrun=args.dryrun, verify=args.verify)
    if args.command == "submit":
        return _submit(args)
    sweep()
    if args.command == "status":
        return jobs.status(args.id, json=args.json)
    if args.command == "list":
        return jobs.list_jobs(backend=args.backend, json=args.json)
    if args.command == "kill":
        return jobs.kill(args.ids)
    if args.command == "spec":
        return jobs.spec(args.id)
    if args.command == "events":
        return jobs.events(args.id, json=args.json)
    if args.command == "logs":
        from ytf.cli.logs import logs

        tail = None if args.tail is None else int(args.tail)
        return logs(args.id, args.tasks, follow=args.follow, tail=tail)
    from ytf.cli.client import attach

    return attach(args.id, args.task_command[0], index=int(args.index))


def parse(words: Sequence[str]) -> Namespace:
    """The command and its options; raises :class:`UsageError` for what is no command line."""
    p = parser()
    args, unknown = p.parse_known_args(list(words))
    # argparse gives tasks and commands after options no second look.
    if args.command == "logs" and not any(word.startswith("-") for word in unknown):
        args.tasks += unknown
        unknown = []
    if args.command == "attach" and not (unknown and unknown[0].startswith("-")):
        args.task_command += unknown
        unknown = []
    if unknown and not (args.command == "attach" and args.task_command):
        p.at(words).error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.version:
        return args
    if args.command is None:
        raise UsageError("which command?", hint=f"see {PROG} --help")
    if args.command == "submit" and args.json and not args.dryrun:
        raise UsageError("--json goes with --dryrun only", hint="`ytf status ID --json` tells more")
    if args.command == "attach":
        given = [*args.task_command, *unknown]
        if len(given) != 1:
            raise UsageError(
                f"expected one command to attach, got {len(given)} words",
                hint=f"quote it: {PROG} attach {args.id} 'python client.py --steps 100'",
            )
        if not given[0].strip():
            raise UsageError("the command to attach is empty")
        _check_number("--index", args.index)
    if args.command == "logs" and args.tail is not None:
        _check_number("--tail", args.tail)
    return args


def _check_number(option: str, text: str) -> None:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{option}: {text!r} is not a number")


def _submit(args: Namespace) -> int:
    from ytf.cli.jobfile import submit_file

    return submit_file(args)


def _schema() -> int:
    import json

    from ytf.specs.schema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
