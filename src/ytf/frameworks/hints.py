"""Finds what a user should do about a program's end, from its exit code, signal and stderr.

The master calls this for every exit. The hints themselves are in the files of
the frameworks. Those of ``none``, which fit any program, come last; there,
hints that know a program's own message come before those that know only a
signal or an exit code.
"""

from __future__ import annotations

import re
import signal as signals
from functools import lru_cache

from ytf.frameworks.api import by_name, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional, Tuple

    from ytf.frameworks.api import Hint

_ANY = "none"


def exit_hint(exit_code: Optional[int], signal: Optional[int], tail: str) -> str:
    """Return what to tell the user about a program's end; empty if nothing is known.

    ``tail`` is the end of its stderr. An exit code above 128, as shells give,
    counts as the signal that it stands for. The hints of all frameworks are
    tried, as a program may use one that the job does not name.
    """
    if exit_code == 0 and signal is None:
        return ""
    if signal is None and exit_code is not None and 128 < exit_code < 128 + signals.NSIG:
        signal = exit_code - 128
    for hint in _all_hints():
        text = _fitting(hint, exit_code, signal, tail)
        if text is not None:
            return text
    return ""


@lru_cache(maxsize=None)
def _all_hints() -> Tuple[Hint, ...]:
    last = sorted(names(), key=lambda name: name == _ANY)
    return tuple(hint for name in last for hint in by_name(name).hints)


def _fitting(
    hint: Hint, exit_code: Optional[int], signal: Optional[int], tail: str
) -> Optional[str]:
    if hint.exit_code is not None and exit_code != hint.exit_code:
        return None
    if hint.signal is not None and signal != hint.signal:
        return None
    words: Dict[str, str] = {}
    for pattern in hint.patterns:
        found = re.search(pattern, tail, re.MULTILINE)
        if found is None:
            return None
        words.update(found.groupdict())
    return hint.text.format_map(words)
