"""How a wrong word is shown to its author, and the right one suggested."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60


def shown(value: object) -> str:
    """A value as a message may quote it: one short line, whatever it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        # Python refuses to print integers beyond some thousand digits.
        return str(value) if value.bit_length() <= 128 else "a number of many digits"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a {type(value).__name__}"


def under(path: str, key: object) -> str:
    """The path of what lies under ``key``: ``groups`` and ``worker`` make ``groups.worker``."""
    if isinstance(key, str):
        name = key if key.isprintable() and 0 < len(key) <= _LONGEST else shown(key)
    else:
        name = shown(key)
    return f"{path}.{name}" if path else name


def did_you_mean(
    word: str, choices: Iterable[str], *, otherwise: str | None = None, likeness: float = 0.6
) -> str | None:
    """A hint that names the choice nearest to a word; ``otherwise``, or else all of them.

    ``likeness`` is how near it must be, from 0 to 1.
    """
    import difflib

    by_folded = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word[:_LONGEST].casefold(), by_folded, n=1, cutoff=likeness)
    if near:
        return f"did you mean {by_folded[near[0]]!r}?"
    if otherwise is not None or not by_folded:
        return otherwise
    return f"there is {listed(by_folded.values())}"


def listed(words: Iterable[str]) -> str:
    """Words as a sentence names them: ``'a', 'b' and 'c'``."""
    *most, last = [repr(word) for word in words]
    return f"{', '.join(most)} and {last}" if most else last
