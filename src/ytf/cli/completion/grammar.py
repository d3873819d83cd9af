"""What may be completed where: commands, options and kinds of values, from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ytf.backends import BACKEND_NAMES
from ytf.cli import main
from ytf.cli.parser import Parser
from ytf.cli.submit import command as ytf_submit
from ytf.specs.job import DockerRuntime, Framework, OnFailure, Placement
from ytf.specs.registry import KINDS
from ytf.specs.status import JobState

FILE = "file"
"""The kind of a value that is a path."""
NOTHING = "nothing"
"""The kind of a value that cannot be completed: a number, a name, a command."""
WORDS = "words"
"""``words a b`` is the kind of a value that is one of these words."""

_VALUES = {
    "--backend": f"{WORDS} {' '.join(BACKEND_NAMES)}",
    "--framework": f"{WORDS} {' '.join(each.value for each in Framework)}",
    "--registry": f"{WORDS} {' '.join(KINDS)} zk://",
    "--docker_runtime": f"{WORDS} {' '.join(each.value for each in DockerRuntime)}",
    "--placement": f"{WORDS} {' '.join(each.value for each in Placement)}",
    "--on_failure": f"{WORDS} {' '.join(each.value for each in OnFailure)}",
    "--state": f"{WORDS} {' '.join(each.value for each in JobState)}",
    "--sort": f"{WORDS} {' '.join(main.SORTS)}",
    "--input": FILE,
    "--output": FILE,
    "--script": FILE,
    "--files": FILE,
    "--env": FILE,
    "--python": FILE,
}
"""The kinds of values of options. Kinds other than those above are asked for: ``candidates``."""

_POSITIONALS = {
    "submit": (FILE,),
    "status": ("known",),
    "top": ("known",),
    "events": ("known",),
    "logs": ("known", "tasks"),
    "kill": ("running",),
    "rm": ("ended",),
    "spec": ("running",),
    "attach": ("running", NOTHING),
    "shell": ("running", "running-tasks", NOTHING),
    "help": ("topics",),
    "completion": (f"{WORDS} {' '.join(main.SHELLS)}",),
}
"""The kinds of positional arguments of each command; the last kind is repeated."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: its spellings, its meaning, and the kind of its value if it has one."""

    words: tuple[str, ...]
    text: str
    value: str | None


@dataclass(frozen=True, kw_only=True)
class CompletableCommand:
    """A program or one of its commands: ``ytf``, ``ytf logs``, ``ytf cluster up``."""

    path: tuple[str, ...]
    commands: Mapping[str, str]
    """The commands below it, and their meanings."""
    options: tuple[Option, ...]
    positionals: tuple[str, ...]


def commands() -> list[CompletableCommand]:
    """Both programs and all commands below them."""
    return [*_walk(main.parser(), ("ytf",)), *_walk(ytf_submit.parser(), ("ytf-submit",))]


def _walk(parser: Parser, path: tuple[str, ...]) -> Iterator[CompletableCommand]:
    below = parser.commands()
    yield CompletableCommand(
        path=path,
        commands={
            name: (command.description or "").partition("\n")[0].removesuffix(".")
            for name, command in below.items()
        },
        options=tuple(_options(parser, path)),
        positionals=_POSITIONALS.get(" ".join(path[1:]), (NOTHING,)),
    )
    for name, command in below.items():
        yield from _walk(command, (*path, name))


def _options(parser: Parser, path: tuple[str, ...]) -> Iterator[Option]:
    for action in parser._actions:
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        value = None
        if action.nargs != 0:
            value = _VALUES.get(action.option_strings[-1], NOTHING)
            if path[1:2] == ("cluster",) and action.dest == "name":
                value = "clusters"
        yield Option(words=tuple(action.option_strings), text=action.help or "", value=value)
