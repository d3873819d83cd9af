"""The command ``ytf help``: explains a command or a topic, or prints all topics in another form."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

from ytf.cli.help import render
from ytf.cli.help.topics import topics
from ytf.cli.parser import Parser
from ytf.errors import NotFoundError, did_you_mean

_WIDTH = 88
_WIDEST = 100


def show_help(words: Sequence[str], ytf: Parser, *, form: str | None) -> int:
    """Print the help of a command of ``ytf`` or a topic, by default the list of topics.

    A command and a topic of one name are both printed. ``form`` is ``man`` or
    ``markdown``: print all topics.
    """
    topic = " ".join(words)
    known = {each.name: each for each in topics()}
    if form == "man":
        sys.stdout.write(render.man_page(known.values()))
    elif form == "markdown":
        sys.stdout.write(render.markdown(known.values()))
    elif not words:
        print("Topics of `ytf help TOPIC`:\n")
        for each in known.values():
            print(f"  {each.name:<16}{each.title}")
        print(f"\nCommands, of which `ytf help COMMAND` shows the options:\n\n  {_commands(ytf)}")
    else:
        command = ytf.at(words)
        is_command = command.prog == f"{ytf.prog} {topic}"
        if not is_command and topic not in known:
            raise NotFoundError(
                f"there is no topic and no command {topic!r}",
                hint=did_you_mean(
                    topic, [*known, *ytf.commands()], otherwise="`ytf help` lists the topics"
                ),
            )
        if is_command:
            sys.stdout.write(command.format_help())
        if topic in known:
            sys.stdout.write("\n" if is_command else "")
            sys.stdout.write(render.terminal_text(known[topic], _width()))
    return 0


def _commands(ytf: Parser) -> str:
    return "\n  ".join(textwrap.wrap("  ".join(ytf.commands()), _width() - 2))


def _width() -> int:
    """The width of the terminal, within limits that are good to read."""
    if not os.isatty(1):
        return _WIDTH
    return min(shutil.get_terminal_size().columns, _WIDEST)
