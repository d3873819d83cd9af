"""Paths with wildcards: ``*``, ``?``, ``[a-c]``, ``[^a]`` and ``{train,test}``, as in Hadoop.

``*`` and ``?`` match within one part of a path, also names that begin with a dot.
A backslash takes the meaning of the character after it away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ytf.storage.files import Files, FileStatus

_SPECIAL = re.compile(r"(?<!\\)(?:\\\\)*[*?\[{]")
_MOST_PATTERNS = 1000


def first_wildcard(path: str) -> int | None:
    """Return the index of the first part of a path, split at ``/``, that has a wildcard."""
    for number, part in enumerate(path.split("/")):
        if _SPECIAL.search(part):
            return number
    return None


def unescaped(path: str) -> str:
    """Return a path without wildcards as it is meant: the backslashes are gone."""
    return re.sub(r"\\(.)", r"\1", path)


def expand(files: Files, pattern: str) -> list[FileStatus]:
    """Return what a pattern matches, sorted by path, each once; [] if that is nothing.

    Raises what ``files`` does, except that what does not exist is not matched.
    """
    found = {
        each.path: each
        for alternative in _without_braces(pattern)
        for each in _matches(files, alternative.strip("/").split("/"), "/")
    }
    return [found[path] for path in sorted(found)]


def _matches(files: Files, parts: list[str], folder: str) -> Iterator[FileStatus]:
    first, *rest = parts
    try:
        if _SPECIAL.search(first) is None:
            found = [files.stat(f"{folder.rstrip('/')}/{unescaped(first)}")]
        else:
            wanted = _regex(first)
            found = [each for each in files.list(folder) if wanted.fullmatch(each.name)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for each in found:
        if not rest:
            yield each
        elif each.is_directory:
            yield from _matches(files, rest, each.path)


def _without_braces(pattern: str) -> list[str]:
    """Return the patterns that a pattern with alternatives in braces stands for."""
    found = [pattern]
    while True:
        spread = [each for one in found for each in _without_first_braces(one)]
        if len(spread) > _MOST_PATTERNS:
            raise ValueError(f"{pattern} stands for more than {_MOST_PATTERNS} paths")
        if spread == found:
            return found
        found = spread


def _without_first_braces(pattern: str) -> list[str]:
    begin = _unquoted(pattern, "{", 0)
    if begin is None:
        return [pattern]
    depth, parts, at = 1, [""], begin + 1
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            parts[-1] += pattern[at : at + 2]
            at += 2
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth == 0:
            return [pattern[:begin] + part + pattern[at + 1 :] for part in parts]
        if char == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += char
        at += 1
    raise ValueError(f"{pattern}: a {{ is not closed")


def _unquoted(text: str, char: str, at: int) -> int | None:
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == char:
            return at
        at += 1
    return None


def _regex(part: str) -> re.Pattern[str]:
    text, at = "", 0
    while at < len(part):
        char = part[at]
        if char == "\\" and at + 1 < len(part):
            at += 1
            text += re.escape(part[at])
        elif char == "[":
            end = part.find("]", at + 2)
            if end < 0:
                raise ValueError(f"{part}: a [ is not closed")
            inside = part[at + 1 : end]
            is_negated = inside[0] in "^!"
            body = inside[1:] if is_negated else inside
            escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", body)
            text += f"[{'^' if is_negated else ''}{escaped}]"
            at = end
        else:
            text += {"*": ".*", "?": "."}.get(char) or re.escape(char)
        at += 1
    try:
        return re.compile(text, re.DOTALL)
    except re.error as exc:
        raise ValueError(f"{part} is not a pattern: {exc}") from exc
