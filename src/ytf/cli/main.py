"""The command ``ytf``: its commands and their options.

``ytf --help`` shall be quick: what a command needs is imported when it runs.
"""

from __future__ import annotations

import sys
from argparse import REMAINDER, SUPPRESS, Namespace
from collections.abc import Sequence

from ytf.cli import cluster
from ytf.cli.help.texts import ytf_epilog
from ytf.cli.output import run_command
from ytf.cli.parser import Parser, UsageError
from ytf.errors import did_you_mean

PROG = "ytf"
SHELLS = ("bash", "zsh", "fish")
SORTS = ("cpu", "memory", "disk", "network", "task")

_JOB = "the job: its id or a part of it, its name, or @last (the last one submitted from here)"
_BACKEND = "where names and @last are looked up: local or yarn"

_DESCRIPTION = """\
Distributed TensorFlow jobs on Hadoop YARN and on this machine.
`ytf-submit` submits a job by options; the commands here do everything else.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return run_command(PROG, lambda: _run(words))


def parser() -> Parser:
    """Every command and its options."""
    p = Parser(prog=PROG, description=_DESCRIPTION, epilog=ytf_epilog)
    p.add_argument("--version", action="store_true", help="print the version, and stop")
    commands = p.add_subparsers(title="commands", dest="command", metavar="<command>")

    def command(name: str, text: str, *, job: bool = True) -> Parser:
        added: Parser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        if job:
            added.add_argument("id", metavar="ID", help=_JOB)
            added.add_argument("--backend", metavar="<backend>", help=_BACKEND)
        return added

    submit = command("submit", "submit the job of a YAML or JSON file", job=False)
    submit.add_argument(
        "file",
        metavar="FILE",
        help="relative paths in it are relative to its directory; - is stdin",
    )
    submit.add_argument("--wait", action="store_true", help="follow the job; Ctrl-C kills it")
    submit.add_argument(
        "--logs", action="store_true", help="with --wait: show what the tasks write, on stderr"
    )
    submit.add_argument("--dryrun", action="store_true", help="print what would be submitted")
    submit.add_argument("--json", action="store_true", help="with --dryrun: as JSON")
    submit.add_argument("-n", "--name", metavar="<name>", help="in place of the file's name")
    submit.add_argument("-q", "--queue", metavar="<queue>", help="in place of the file's queue")
    submit.add_argument("--backend", metavar="<backend>", help="local or yarn")

    status = command("status", "show the state of a job and its tasks, also after its end")
    status.add_argument("--json", action="store_true", help="as JSON")

    top = command("top", "show what the tasks of a job use, live on a terminal, else once")
    top.add_argument("--json", action="store_true", help="once, as JSON")
    top.add_argument(
        "--sort",
        metavar="<by>",
        default="cpu",
        choices=SORTS,
        help="cpu (default), memory, disk, network or task; on a terminal also the keys c m d n t",
    )
    top.add_argument(
        "--interval", metavar="<time>", default="2s", help="how often it is read (default 2s)"
    )

    list_ = command("list", "list jobs, newest first", job=False)
    list_.add_argument("--json", action="store_true", help="as JSON")
    list_.add_argument("--backend", metavar="<backend>", help="local or yarn")
    list_.add_argument(
        "--state",
        metavar="<states>",
        action="append",
        help="only jobs in these states, comma-separated and repeatable: SUBMITTED, STARTING, "
        "RUNNING, SUCCEEDED, FAILED, KILLED",
    )
    list_.add_argument("--running", action="store_true", help="only jobs that have not ended")
    list_.add_argument(
        "--name", metavar="<pattern>", help="only jobs with this name; * and ? are wildcards"
    )
    list_.add_argument("--user", metavar="<user>", help="only jobs of this user")
    list_.add_argument(
        *("-n", "--limit"),
        metavar="<n>",
        help="only the n newest of them (default: 20 on a terminal, else all)",
    )
    list_.add_argument("--all", action="store_true", help="without a limit")

    logs = command("logs", "print what the tasks wrote: `worker:0 | stdout`, `worker:0 ! stderr`")
    # Without a default argparse would call them required when the ID is missing.
    logs.add_argument(
        "tasks",
        metavar="GROUP[:INDEX[#ATTEMPT]]",
        nargs="*",
        default=[],
        help="only these tasks; worker:0#2 is the second attempt of worker:0",
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    logs.add_argument(
        "--tail", metavar="<n>", help="only the last n lines of each task's stdout and stderr"
    )

    kill = command("kill", "end jobs", job=False)
    kill.add_argument("ids", metavar="ID", nargs="+", help=_JOB)
    kill.add_argument("--wait", action="store_true", help="return when they have ended")
    kill.add_argument("--backend", metavar="<backend>", help=_BACKEND)
    remove = command("rm", "remove the records and logs of jobs that have ended", job=False)
    remove.add_argument("ids", metavar="ID", nargs="+", help=_JOB)
    remove.add_argument("--backend", metavar="<backend>", help=_BACKEND)
    command("spec", "print the cluster spec (the addresses of all tasks) as JSON")

    events = command("events", "list the events of a job")
    events.add_argument("--json", action="store_true", help="as JSON")

    attach = command("attach", "run one more client of a running job at this terminal")
    attach.add_argument("task_command", metavar="COMMAND", nargs="*", help="quoted, as one word")
    attach.add_argument(
        "--index", metavar="<n>", default="1", help="its DTF_TASK_INDEX (default 1)"
    )

    shell = command("shell", "open a shell, or run a command, in the container of a running task")
    shell.add_argument(
        "task", metavar="TASK", help="worker:0, or a group of one task; the job must be your own"
    )
    shell.add_argument(
        *("-t", "--terminal"),
        action="store_true",
        help="give the command a terminal, as a shell without a command has it; Enter ~ . leaves "
        "one that hangs",
    )
    # All that follows the task is the command's: `ls -t` asks for no terminal.
    shell.add_argument(
        "words",
        metavar="COMMAND",
        nargs=REMAINDER,
        help="in place of a shell: a quoted command line, or a command and its arguments; its "
        "exit code is returned",
    )

    command("schema", "print the JSON schema of job files", job=False)
    gc = command(
        "gc", "remove what is not needed any more: leftovers of jobs, old layers", job=False
    )
    gc.add_argument("--dryrun", action="store_true", help="only list what would be removed")
    gc.add_argument(
        "--verify",
        action="store_true",
        help="read all layers stored in HDFS, and mark damaged ones to be uploaded again",
    )
    gc.add_argument(
        "--older-than",
        metavar="<age>",
        help="remove records and logs of jobs that ended longer ago: 12h, 3d (default: what "
        "history_days says)",
    )
    gc.add_argument("--backend", metavar="<backend>", help="local or yarn")
    doctor = command(
        "doctor",
        "check what jobs need: this machine, the cluster, HDFS, and a small job",
        job=False,
    )
    doctor.add_argument("--json", action="store_true", help="as JSON, at the end")
    doctor.add_argument("--no_remote", action="store_true", help="leave out the small job")
    doctor.add_argument(
        *("-q", "--queue"), metavar="<queue>", help="the queue to look at, and for the small job"
    )
    doctor.add_argument("--backend", metavar="<backend>", help="local or yarn")
    cluster.add_arguments(command("cluster", "run a real Hadoop on this machine", job=False))
    help_ = command(
        "help", "explain a command, job files, settings, events, files and more", job=False
    )
    help_.add_argument(
        "topic",
        metavar="TOPIC",
        nargs="*",
        default=[],
        help="a topic or a command; default: list the topics",
    )
    help_.add_argument(
        "--man",
        dest="form",
        action="store_const",
        const="man",
        help="print all topics as a man page",
    )
    help_.add_argument(
        "--markdown",
        dest="form",
        action="store_const",
        const="markdown",
        help="print all topics as Markdown",
    )
    completion = command("completion", "print a script for completion in a shell", job=False)
    completion.add_argument(
        "shell", metavar="SHELL", nargs="?", choices=SHELLS, help="bash, zsh or fish"
    )
    completion.add_argument("--candidates", nargs="+", help=SUPPRESS)
    return p


def _run(words: Sequence[str]) -> int:
    args = parse(words)
    if args.command is None and not args.version:
        sys.stdout.write(parser().format_help())
        return 0
    if args.version:
        print(f"{PROG} {version()}")
        return 0
    if args.command == "schema":
        return _schema()
    if args.command == "help":
        from ytf.cli.help.command import show_help

        return show_help(args.topic, parser(), form=args.form)
    if args.command == "completion":
        return _completion(args)
    if args.command == "cluster":
        return cluster.run(args)

    if args.command == "doctor":
        # Without an automatic gc: what is wrong shall be found, not be changed.
        from ytf.cli.doctor import doctor

        return doctor(
            backend=args.backend, queue=args.queue, remote=not args.no_remote, json=args.json
        )

    from ytf.cli import jobs
    from ytf.cli.gc import automatic_gc

    if args.command == "gc":
        from ytf.cli.gc import gc

        return gc(
            backend=args.backend,
            dryrun=args.dryrun,
            verify=args.verify,
            older_than_s=_duration("--older-than", args.older_than),
        )
    if args.command == "rm":
        # Without an automatic gc, which records dead jobs: on a full disk it could not.
        from ytf.cli.gc import remove

        return remove(args.ids, backend=args.backend)
    if args.command == "submit":
        return _submit(args)
    automatic_gc()
    if args.command == "status":
        return jobs.status(args.id, backend=args.backend, json=args.json)
    if args.command == "top":
        from ytf.cli.top import top

        interval_s = max(0.2, _duration("--interval", args.interval) or 0.0)
        return top(
            args.id, backend=args.backend, json=args.json, sort=args.sort, interval_s=interval_s
        )
    if args.command == "list":
        return _list(args)
    if args.command == "kill":
        return jobs.kill(args.ids, backend=args.backend, wait=args.wait)
    if args.command == "spec":
        return jobs.spec(args.id, backend=args.backend)
    if args.command == "events":
        return jobs.events(args.id, backend=args.backend, json=args.json)
    if args.command == "logs":
        from ytf.cli.logs import logs

        tail = None if args.tail is None else int(args.tail)
        return logs(args.id, args.tasks, backend=args.backend, follow=args.follow, tail=tail)
    if args.command == "shell":
        from ytf.cli.shell import shell

        return shell(args.id, args.task, args.words, backend=args.backend, terminal=args.terminal)
    from ytf.cli.attach import attach

    return attach(args.id, args.task_command[0], backend=args.backend, index=int(args.index))


def parse(words: Sequence[str]) -> Namespace:
    """The command and its options; raises :class:`UsageError` for a wrong command line."""
    p = parser()
    words, after = _split_command(words)
    args, unknown = p.parse_known_args(list(words))
    # argparse does not take positional arguments that follow options.
    if args.command == "logs" and not any(word.startswith("-") for word in unknown):
        args.tasks += unknown
        unknown = []
    if args.command == "attach" and not (unknown and unknown[0].startswith("-")):
        args.task_command += unknown
        unknown = []
    if unknown and not (args.command == "attach" and args.task_command):
        p.at(words).error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.command is None:
        return args
    if args.command == "completion" and not (args.shell or args.candidates):
        raise UsageError("which shell?", hint=f"{PROG} completion bash, zsh or fish")
    if args.command == "submit" and args.json and not args.dryrun:
        raise UsageError("--json goes with --dryrun only", hint="see `ytf status ID --json`")
    if args.command == "submit" and args.logs and not args.wait:
        raise UsageError("--logs goes with --wait only", hint=f"see `{PROG} logs -f @last`")
    if args.command == "list" and args.limit is not None:
        _check_number("--limit", args.limit)
        if args.all:
            raise UsageError("--all and --limit exclude each other")
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
    if args.command == "shell":
        if args.words[:1] and args.words[0].startswith("-"):
            raise UsageError(
                f"{args.words[0]!r} is not a command",
                hint=f"options come before the job: {PROG} shell -t ID worker:0 top",
            )
        if args.words and after:
            args.words.append("--")
        args.words += after
        if args.words and not args.words[0].strip():
            raise UsageError("the command to run is empty")
        if not args.task.strip():
            raise UsageError("which task?", hint=f"{PROG} shell {args.id} worker:0")
    if args.command == "logs" and args.tail is not None:
        _check_number("--tail", args.tail)
    return args


def _split_command(words: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    """Split the command of ``ytf shell ID TASK -- COMMAND`` off: argparse's versions differ."""
    if list(words[:1]) != ["shell"] or "--" not in words:
        return words, []
    at = list(words).index("--")
    return words[:at], list(words[at + 1 :])


def version() -> str:
    """The version of ytf in the metadata of the installed distribution."""
    from importlib import metadata

    return metadata.version("ytf")


def _check_number(option: str, text: str) -> None:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{option}: {text!r} is not a number")


def _duration(option: str, text: str | None) -> float | None:
    from ytf.specs.durations import parse_duration

    return None if text is None else parse_duration(text, where=option)


def _completion(args: Namespace) -> int:
    if args.candidates:
        from ytf.cli.completion.candidates import print_candidates

        kind, *words = args.candidates
        return print_candidates(kind, words)
    from ytf.cli.completion.scripts import script

    sys.stdout.write(script(args.shell))
    return 0


def _submit(args: Namespace) -> int:
    from ytf.cli.submit.job_file import submit_file

    return submit_file(args)


def _list(args: Namespace) -> int:
    from ytf.cli.jobs import list_jobs
    from ytf.specs.grammar import split_list
    from ytf.specs.status import JobState

    names = [state.value for state in JobState]
    states = {state for state in JobState if args.running and not state.is_final}
    for word in (word.upper() for given in args.state or () for word in split_list(given)):
        if word not in names:
            raise UsageError(
                f"--state: there is no state {word!r}",
                hint=did_you_mean(word, names, otherwise=f"they are {', '.join(names)}"),
            )
        states.add(JobState(word))
    limit = 0 if args.all else None if args.limit is None else int(args.limit)
    return list_jobs(
        backend=args.backend,
        json=args.json,
        states=states or None,
        name=args.name,
        user=args.user,
        limit=limit,
    )


def _schema() -> int:
    import json

    from ytf.specs.schema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
