"""Finds the links through which a submission ships more than the files that were named.

A link that leaves a shipped directory is followed, because its target is not on the nodes:
what it leads to is shipped. That may be a key or a data set that nobody meant to give away,
so the plan notes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ytf.backends.api import Upload
from ytf.specs.job import is_url

_MAX_SHOWN = 5


def link_notes(uploads: Iterable[Upload]) -> Iterator[str]:
    """A sentence for each named file or directory that has, or is, a link to elsewhere."""
    for source in dict.fromkeys(upload.source for upload in uploads):
        if is_url(source):
            continue
        real = os.path.realpath(source)
        if os.path.islink(source) and not _is_inside(real, os.path.dirname(source)):
            yield f"{source} is a link: what is shipped is {real}"
        found = list(_outside_links(source, real))
        if found:
            shown = [f"{link} → {target}" for link, target in found[:_MAX_SHOWN]]
            more = [f"and {len(found) - _MAX_SHOWN} more"] if len(found) > _MAX_SHOWN else []
            count = "1 link leads" if len(found) == 1 else f"{len(found)} links lead"
            yield (
                f"{count} out of {source}, and what is there is shipped, too: "
                + ", ".join([*shown, *more])
            )


def _outside_links(directory: str, root: str) -> Iterator[tuple[str, str]]:
    """The links below a directory that leave it, and where they lead."""
    for folder, folders, files in os.walk(directory):
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                target = os.path.realpath(path)
                if os.path.exists(target) and not _is_inside(target, root):
                    yield os.path.relpath(path, directory), target


def _is_inside(path: str, directory: str) -> bool:
    return os.path.commonpath([path, os.path.realpath(directory)]) == os.path.realpath(directory)
