"""Prints topics of the reference: for a terminal, as Markdown, and as a man page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from ytf.cli.help.document import REQUIRED, Section, Table, Topic

_NOTICE = "<!-- Made by scripts/reference from the code (src/ytf/cli/help): change it there. -->\n"
_MAN_HEAD = """\
.\\" Made by scripts/reference from the code (src/ytf/cli/help): change it there.
.TH YTF 1 "" "ytf" "User Commands"
.SH NAME
ytf, ytf\\-submit \\- distributed TensorFlow jobs on Hadoop YARN
.SH SYNOPSIS
.B ytf\\-submit
[OPTIONS] \\-r <requirement> <task_command>
.br
.B ytf
<command> [OPTIONS]
"""


def terminal_text(topic: Topic, width: int) -> str:
    """A topic for a terminal of this width."""
    parts = [topic.title, "=" * len(topic.title), ""]
    for section in topic.sections:
        if section.title:
            parts += [section.title, "-" * len(section.title), ""]
        for block in section.blocks:
            if isinstance(block, Table):
                parts += [*_terminal_rows(block, width), ""]
            else:
                parts += [*textwrap.wrap(block, width, break_on_hyphens=False), ""]
    return "\n".join(parts)


def _terminal_rows(table: Table, width: int) -> Iterator[str]:
    for name, *details, meaning in table.rows:
        # Two columns need no headers; of more, the columns between are in brackets.
        known = [
            f"default: {text}" if header == "default" and text != REQUIRED else text
            for header, text in zip(table.headers[1:-1], details, strict=True)
            if text and text != "-"
        ]
        yield f"  {name}" + (f"  ({'; '.join(known)})" if known else "")
        yield textwrap.fill(
            meaning,
            width,
            initial_indent=" " * 6,
            subsequent_indent=" " * 6,
            break_on_hyphens=False,
        )


def markdown(topics: Iterable[Topic]) -> str:
    """The whole reference as Markdown."""
    topics = tuple(topics)
    contents = "\n".join(f"- [{topic.title}](#{_anchor(topic.title)})" for topic in topics)
    intro = "`ytf help` shows the same in a terminal, topic by topic; `man ytf` is `docs/ytf.1`."
    parts = [f"{_NOTICE}\n# Reference\n\n{intro}\n\n{contents}\n"]
    for topic in topics:
        parts.append(f"\n## {topic.title}\n")
        parts += map(_markdown_section, topic.sections)
    return "".join(parts)


def _anchor(title: str) -> str:
    """The anchor that GitHub makes of a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _markdown_section(section: Section) -> str:
    text = f"\n### {section.title}\n" if section.title else ""
    for block in section.blocks:
        text += "\n"
        if isinstance(block, Table):
            text += f"| {' | '.join(block.headers)} |\n|{'---|' * len(block.headers)}\n"
            for name, *others in block.rows:
                cells = (f"`{name}`", *others)
                text += f"| {' | '.join(map(_cell, cells))} |\n"
        else:
            text += f"{_outside_code(block)}\n"
    return text


def _cell(text: str) -> str:
    return _outside_code(text).replace("|", "\\|")


def _outside_code(text: str) -> str:
    """Text in which ``<`` and ``*`` outside of backquotes are not markup."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([<*\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def man_page(topics: Iterable[Topic]) -> str:
    """The whole reference as a man page."""
    parts = [_MAN_HEAD]
    for topic in topics:
        parts.append(f".SH {_roff(topic.title.upper())}\n")
        for section in topic.sections:
            if section.title:
                parts.append(f".SS {_roff(section.title)}\n")
            parts += (
                _man_rows(block) if isinstance(block, Table) else _man_text(block)
                for block in section.blocks
            )
    return "".join(parts)


def _man_rows(table: Table) -> str:
    text = ""
    for name, *details, meaning in table.rows:
        known = [
            f"{header}: {detail}"
            for header, detail in zip(table.headers[1:-1], details, strict=True)
            if detail and detail != "-"
        ]
        text += f".TP\n.B {_roff(name)}\n"
        if known:
            text += f"{_line(_roff('; '.join(known)))}\n.br\n"
        text += f"{_line(_roff(meaning))}\n"
    return text


def _man_text(paragraph: str) -> str:
    return f".PP\n{_line(_roff(paragraph))}\n"


def _roff(text: str) -> str:
    """Text with roff's special characters escaped; code is bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("→", "\\(->")
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)


def _line(text: str) -> str:
    """A line that does not begin with a character of roff's requests."""
    return f"\\&{text}" if text.startswith((".", "'")) else text
