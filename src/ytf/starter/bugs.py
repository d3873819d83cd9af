"""Words for what is our own fault."""

from __future__ import annotations


def bug_text(exc: BaseException, thread: str) -> str:
    """One line on an exception that nobody expected: what, in which thread, on which lines."""
    at = exc.__traceback__
    places = []
    while at is not None:
        places.append("%s:%d" % (at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    return "a bug in ytf, please report it: %r in thread %s, at %s" % (
        exc,
        thread,
        ", ".join(places),
    )
