"""argparse with our manners: one clear message and a hint in place of a wall of usage."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from ytf.errors import YtfError


class UsageError(YtfError):
    """The command line itself is wrong."""

    exit_code = 2


class Parser(argparse.ArgumentParser):
    """Raises :class:`UsageError` where argparse would print and exit; never guesses options."""

    def __init__(
        self,
        *,
        prog: str | None = None,
        usage: str | None = None,
        description: str | None = None,
        epilog: str | None = None,
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Turn what argparse found into a :class:`UsageError`."""
        raise UsageError(_sentence(message), hint=self.hint_for(message))

    def hint_for(self, message: str) -> str:
        """A near word for a mistyped option or command, else where help is."""
        wrong = re.search(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'", message)
        if wrong:
            near = did_you_mean(wrong[1] or wrong[2], self.words())
            if near:
                return near
        return f"see {self.prog} --help"

    def words(self) -> list[str]:
        """The options and commands that may be written here."""
        options = [word for action in self._actions for word in action.option_strings]
        return [*options, *self._commands()]

    def at(self, words: Sequence[str]) -> Parser:
        """The parser of the innermost command that a command line names; else this one."""
        commands = self._commands()
        for number, word in enumerate(words):
            if word in commands:
                return commands[word].at(words[number + 1 :])
        return self

    def _commands(self) -> dict[str, Parser]:
        found: dict[str, Parser] = {}
        for action in self._actions:
            if isinstance(action.choices, dict):
                found.update(action.choices)
        return found


class Once(argparse.Action):
    """Takes one value, and refuses a second rather than forget the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse for each use of the option."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "is given twice")
        setattr(namespace, self.dest, values)


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """``did you mean …?`` for the nearest known word, if one is near."""
    import difflib

    near = difflib.get_close_matches(wrong.partition("=")[0], list(known), n=1)
    return f"did you mean {near[0]}?" if near else None


def _sentence(message: str) -> str:
    """argparse's message without its choices-list noise."""
    return re.sub(r"^argument ([^:]+): ", r"\1: ", message)
