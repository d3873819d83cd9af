"""Makes the topics of the reference from the types, tables and parsers of the code."""

from __future__ import annotations

import argparse
import types
from collections.abc import Iterator
from enum import Enum
from typing import Union, get_args, get_origin, get_type_hints

import msgspec

from ytf import errors
from ytf.cli import main
from ytf.cli.help import texts
from ytf.cli.help.document import REQUIRED, Section, Table, Topic, two_columns
from ytf.cli.parser import Parser
from ytf.cli.submit import command as ytf_submit
from ytf.specs.checks import CheckName, CheckResult, CheckState
from ytf.specs.event_kinds import EventKind
from ytf.specs.field_docs import field_docs, first_line
from ytf.specs.job import SPECS, DockerRuntime, Framework, JobSpec, OnFailure, Placement
from ytf.specs.settings import SETTINGS, variable_of

_KEYS_OF = {
    "JobSpec": "Keys of a job",
    "TaskGroupSpec": "Keys of a task group",
    "Resources": "Keys of resources",
    "StageIn": "Keys of stage_in entries",
    "StageOut": "Keys of stage_out entries",
    "CheckpointSync": "Keys of checkpoint_sync",
    "Backoff": "Keys of backoff",
    "Timeouts": "Keys of timeouts",
    "MasterSpec": "Keys of master",
    "DockerSpec": "Keys of docker",
}
_HIDDEN = (argparse._SubParsersAction, argparse._HelpAction)
_CHOICES: tuple[type[Enum], ...] = (OnFailure, Placement, Framework, DockerRuntime)
_CHOICE_KEYS = {
    OnFailure: "on_failure",
    Placement: "placement",
    Framework: "framework",
    DockerRuntime: "runtime",
}
_MOST_VALUES = 4
"""More values of a choice are not listed beside each key."""
_TYPE_WORDS: dict[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
}


def topics() -> tuple[Topic, ...]:
    """All topics, in the order of the reference."""
    return (
        _ytf_submit_topic(),
        _ytf_topic(),
        _job_file_topic(),
        _settings_topic(),
        _task_variables_topic(),
        _variables_topic(),
        _events_topic(),
        _checks_topic(),
        _exit_codes_topic(),
        _files_topic(),
    )


def _ytf_submit_topic() -> Topic:
    parser = ytf_submit.parser()
    intro = (
        f"`{parser.usage}` prints the job's id alone on stdout and everything else on stderr. "
        "`ytf-submit --help` has examples."
    )
    return Topic(
        name="ytf-submit",
        title="ytf-submit: submit a job by options",
        sections=(
            Section(blocks=(intro,)),
            *(
                Section(
                    title=(group.title or "").capitalize(),
                    blocks=(
                        *([group.description.replace("\n", " ")] if group.description else []),
                        _options_table(group._group_actions),
                    ),
                )
                for group in parser._action_groups
                if any(action.option_strings for action in group._group_actions)
            ),
        ),
    )


def _ytf_topic() -> Topic:
    return Topic(
        name="ytf",
        title="ytf: everything else about jobs",
        sections=tuple(
            Section(
                title=f"ytf {name}",
                blocks=(parser.description or "", *_arguments(parser)),
            )
            for name, parser in _all_commands(main.parser())
        ),
    )


def _all_commands(parser: Parser, prefix: str = "") -> Iterator[tuple[str, Parser]]:
    for name, command in parser.commands().items():
        yield prefix + name, command
        yield from _all_commands(command, f"{prefix}{name} ")


def _arguments(parser: Parser) -> Iterator[Table]:
    table = _options_table(parser._actions)
    if table.rows:
        yield table


def _options_table(actions: list[argparse.Action]) -> Table:
    rows = []
    for action in actions:
        if action.help == argparse.SUPPRESS or isinstance(action, _HIDDEN):
            continue
        words = list(action.option_strings) or [str(action.metavar)]
        if action.option_strings and action.nargs != 0:
            words[-1] += f" {action.metavar}"
        rows.append((", ".join(words), action.help or ""))
    return two_columns(("option", "meaning"), rows)


def _job_file_topic() -> Topic:
    classes = ", ".join(f"`ytf.{spec.__name__}`" for spec in SPECS if spec is not JobSpec)
    intro = (
        "`ytf submit FILE` submits the job of a YAML or JSON file. Relative paths in it are "
        "relative to the directory of the file. `ytf schema` prints a JSON schema for editors. "
        "In Python the same words are the fields of `ytf.JobSpec` and of the classes below it: "
        f"{classes}. "
        "A time is a number of seconds or text with units: `90`, `90s`, `5m`, `1h30m`, `2d`."
    )
    keys = [
        Section(title=_KEYS_OF[spec.__name__], blocks=(first_line(spec), _keys_table(spec)))
        if spec is not JobSpec
        else Section(title=_KEYS_OF[spec.__name__], blocks=(_keys_table(spec),))
        for spec in SPECS
    ]
    choices = [
        Section(
            title=f"Values of {_CHOICE_KEYS[choice]}",
            blocks=(
                first_line(choice),
                two_columns(
                    ("value", "meaning"),
                    [(choice[name].value, text) for name, text in field_docs(choice).items()],
                ),
            ),
        )
        for choice in _CHOICES
    ]
    return Topic(
        name="job.yaml",
        title="job.yaml: the keys of a job file",
        sections=(Section(blocks=(intro,)), *keys, *choices),
    )


def _keys_table(spec: type[msgspec.Struct]) -> Table:
    documented, hints = field_docs(spec), get_type_hints(spec)
    return Table(
        headers=("key", "type", "default", "meaning"),
        rows=tuple(
            (
                field.encode_name,
                "time" if field.name.endswith("_s") else _type_text(hints[field.name]),
                _default_text(field),
                documented[field.name],
            )
            for field in msgspec.structs.fields(spec)
        ),
    )


def _type_text(hint: object) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        return " or ".join(map(_type_text, parts))
    if get_origin(hint) is dict:
        key, value = get_args(hint)
        return f"mapping from {_type_text(key)} to {_type_text(value)}"
    if get_origin(hint) is tuple:
        return f"list of {_type_text(get_args(hint)[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        if len(hint) > _MOST_VALUES:
            return f"one of the values of {_CHOICE_KEYS[hint]} below"
        return " or ".join(f"`{member.value}`" for member in hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _KEYS_OF[hint.__name__].removeprefix("Keys of ").removeprefix("a ")
    return _TYPE_WORDS[hint]


def _default_text(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return REQUIRED
    if field.default is msgspec.NODEFAULT or field.default in ((), {}):
        return "empty"
    if field.default is None:
        return "-"
    if isinstance(field.default, msgspec.Struct):
        usual = type(field.default)()
        changed = [
            f"{name} {getattr(field.default, name)}"
            for name in usual.__struct_fields__
            if getattr(field.default, name) != getattr(usual, name)
        ]
        return ", ".join(["its defaults", *changed])
    if isinstance(field.default, Enum):
        return f"`{field.default.value}`"
    if isinstance(field.default, bool):
        return "true" if field.default else "false"
    if isinstance(field.default, float):
        return f"{field.default:g}"
    return f"`{field.default}`" if isinstance(field.default, str) else str(field.default)


def _settings_topic() -> Topic:
    rows = tuple(
        (
            key,
            variable_of(key),
            _option_of(key) or "-",
            "no" if setting.only_user else "yes",
            setting.meaning,
        )
        for key, setting in SETTINGS.items()
    )
    intro = (
        "A setting comes from the strongest of these: the option, the variable, the nearest "
        "`ytf.toml` from the working directory upward, `$YTF_HOME/ytf.toml`. A file has lines "
        'such as `queue = "ml"`. A key of a job file wins over a setting, and an option of '
        "`ytf submit` wins over the file."
    )
    trust = (
        "A file is ignored, with a line on stderr, if it belongs neither to you nor to root, or if "
        "others can write to it. A project's file (the one found upward) cannot set what runs "
        "programs, removes things or lets others in: the table says what it can set."
    )
    return Topic(
        name="settings",
        title="ytf.toml: settings and their variables",
        sections=(
            Section(
                blocks=(
                    intro,
                    trust,
                    Table(
                        headers=("setting", "variable", "option", "by a project", "meaning"),
                        rows=rows,
                    ),
                )
            ),
        ),
    )


def _option_of(setting: str) -> str | None:
    option = f"--{setting}"
    return option if option in ytf_submit.parser().words() else None


def _task_variables_topic() -> Topic:
    table = two_columns(("variable", "meaning"), texts.TASK_VARIABLES.items())
    intro = (
        "The command of a task finds these variables in its environment, and those that "
        "`task_env` gives it. The names of groups are in upper case in `DTF_<GROUP>_HOSTS`."
    )
    return Topic(
        name="task-variables",
        title="Environment variables of tasks",
        sections=(Section(blocks=(intro, table)),),
    )


def _variables_topic() -> Topic:
    table = two_columns(("variable", "meaning"), texts.CLIENT_VARIABLES.items())
    return Topic(
        name="variables",
        title="Environment variables of the commands",
        sections=(Section(blocks=("Every setting has a variable, too.", table)),),
    )


def _events_topic() -> Topic:
    intro = "The kinds of events that `ytf events` shows, and `ytf events --json` in `event`."
    return Topic(
        name="events",
        title="Events of a job",
        sections=(Section(blocks=(intro, two_columns(("event", "meaning"), event_kinds()))),),
    )


def event_kinds() -> list[tuple[str, str]]:
    """Every value of ``JobEvent.event`` and what it means."""
    return _documented(EventKind)


def _checks_topic() -> Topic:
    intro = (
        "`ytf doctor` makes those of this machine, then those of the backend that jobs would use, "
        "and runs a small job, which leaves nothing but layers. Each check has a time limit. The "
        "exit code is 0 if none failed, else 1. `check_hadoop_env` is `ytf doctor --backend yarn`, "
        "by tf-yarn's name for it."
    )
    contract = (
        "A list of objects, in the order of the checks. Their fields, the names of checks and the "
        "values of `state` are for programs to rely on; a newer ytf may add checks."
    )
    return Topic(
        name="checks",
        title="Checks of ytf doctor",
        sections=(
            Section(
                blocks=(intro, two_columns(("check", "what it tells"), _documented(CheckName)))
            ),
            Section(
                title="ytf doctor --json",
                blocks=(
                    contract,
                    two_columns(("field", "meaning"), field_docs(CheckResult).items()),
                    two_columns(("state", "meaning"), _documented(CheckState)),
                ),
            ),
        ),
    )


def _documented(kinds: type[Enum]) -> list[tuple[str, str]]:
    """The values of an enum and their meanings."""
    return [(kinds[name].value, text) for name, text in field_docs(kinds).items()]


def _exit_codes_topic() -> Topic:
    codes = two_columns(("code", "meaning"), texts.EXIT_CODES.items())
    classes = [getattr(errors, name) for name in errors.__all__ if name != "YtfError"]
    raised = Table(
        headers=("exception", "code", "meaning"),
        rows=tuple(
            (f"ytf.{error.__name__}", str(error.exit_code), first_line(error)) for error in classes
        ),
    )
    return Topic(
        name="exit-codes",
        title="Exit codes",
        sections=(
            Section(
                blocks=(
                    "`ytf attach` and `ytf shell` return the exit code of their command.",
                    codes,
                )
            ),
            Section(
                title="Exceptions in Python",
                blocks=(
                    "All are subclasses of `ytf.YtfError`. A command ends with their code.",
                    raised,
                ),
            ),
        ),
    )


def _files_topic() -> Topic:
    headers = ("path", "meaning")
    return Topic(
        name="files",
        title="Files that ytf keeps",
        sections=(
            Section(
                title="On the submitter's machine",
                blocks=(
                    "`YTF_HOME` is `~/.ytf` unless it is set.",
                    two_columns(headers, texts.FILES_HERE.items()),
                ),
            ),
            Section(
                title="In HDFS",
                blocks=(
                    "Below the user's home directory.",
                    two_columns(headers, texts.FILES_HDFS.items()),
                ),
            ),
        ),
    )
