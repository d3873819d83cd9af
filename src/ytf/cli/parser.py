"""argparse for both commands: errors are one message with a hint, not the whole usage."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ytf.errors import YtfError, did_you_mean


class UsageError(YtfError):
    """The command line itself is wrong."""

    exit_code = 2


class Parser(argparse.ArgumentParser):
    """Raises :class:`UsageError` where argparse would print and exit.

    An option must be written in full. ``epilog`` is called only when help is printed.
    """

    def __init__(
        self,
        *,
        prog: str | None = None,
        usage: str | None = None,
        description: str | None = None,
        epilog: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.make_epilog = epilog

    def format_help(self) -> str:
        """The text of ``--help``."""
        if self.make_epilog is not None:
            self.epilog = self.make_epilog()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Turn what argparse found into a :class:`UsageError`."""
        raise UsageError(_sentence(message), hint=self.hint_for(message))

    def hint_for(self, message: str) -> str:
        """A near word for a mistyped option or command, else where help is."""
        help_ = f"see {self.prog} --help"
        wrong = re.search(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'", message)
        if wrong:
            word = (wrong[1] or wrong[2]).partition("=")[0]
            return did_you_mean(word, self.words(), otherwise=help_) or help_
        return help_

    def words(self) -> list[str]:
        """The options and commands that may be written here."""
        options = [word for action in self._actions for word in action.option_strings]
        return [*options, *self.commands()]

    def at(self, words: Sequence[str]) -> Parser:
        """The parser of the innermost command that a command line names; else this one."""
        commands = self.commands()
        for number, word in enumerate(words):
            if word in commands:
                return commands[word].at(words[number + 1 :])
        return self

    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands below this one, by name."""
        found: dict[str, Parser] = {}
        for action in self._actions:
            if isinstance(action.choices, dict):
                found.update(action.choices)
        return found


class Once(argparse.Action):
    """An option that may be given once: argparse itself would forget the first value."""

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


def _sentence(message: str) -> str:
    """argparse's message without the word "argument"."""
    return re.sub(r"^argument ([^:]+): ", r"\1: ", message)
