"""Reads one Hadoop configuration file (XML with XInclude) as a list of properties.

It uses expat directly, so that every error has a file and a line, and so that
entities, and with them XML bombs, are refused.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

import msgspec

from ytf.errors import SettingsError

_INCLUDE = "http://www.w3.org/2001/XInclude include"
_FALLBACK = "http://www.w3.org/2001/XInclude fallback"
_MAX_BYTES = 16 * 1024 * 1024
"""The limit on a file with all that it includes; a file counts each time it is included."""
_MAX_INCLUDES = 64


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as written in a file, with the spaces around its value.

    Later files cannot change a ``final`` one.
    """

    name: str
    value: str
    final: bool
    file: Path
    line: int


def read_properties(path: Path) -> list[Property]:
    """All properties of a file and of the files it includes, in order.

    Properties without a value are left out, as in Hadoop. Raises
    ``SettingsError`` with the file and the line if it cannot be read.
    """
    return _read(path, (), _Budget())


class _Budget:
    """What is left to read. Nested includes share it: each could multiply the work."""

    def __init__(self) -> None:
        self.includes = _MAX_INCLUDES
        self.bytes = _MAX_BYTES


def _read(path: Path, parents: tuple[Path, ...], budget: _Budget) -> list[Property]:
    try:
        with path.open("rb") as file:
            data = file.read(budget.bytes + 1)
    except OSError as exc:
        raise SettingsError(f"cannot read {path}: {exc.strerror}") from exc
    budget.bytes -= len(data)
    if budget.bytes < 0:
        first = (*parents, path)[0]
        raise SettingsError(
            f"{first} is too long for a Hadoop configuration file: with what it includes, more "
            f"than {_MAX_BYTES >> 20} MiB"
        )
    return _Reader(path, (*parents, path), budget).read(data)


class _Reader:
    """Parses one document. Unknown elements are ignored, as in Hadoop."""

    def __init__(self, path: Path, chain: tuple[Path, ...], budget: _Budget) -> None:
        self._path, self._chain, self._budget = path, chain, budget
        self._found: list[Property] = []
        self._open: list[str] = []
        self._fields: dict[str, str] | None = None
        self._line = 0
        self._text: list[str] = []
        # For each open include: whether its fallback is needed.
        self._fallbacks: list[bool] = []
        self._skipping = 0
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.EntityDeclHandler = self._refuse_entity
        parser.buffer_text = True
        self._parser = parser

    def read(self, data: bytes) -> list[Property]:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as exc:
            raise SettingsError(
                f"{self._path}, line {exc.lineno}: {expat.ErrorString(exc.code)}",
                hint="it must be well-formed XML",
            ) from exc
        except (LookupError, ValueError) as exc:  # an encoding that Python does not have
            raise SettingsError(f"{self._path}: {exc}") from exc
        return self._found

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipping or (tag == _FALLBACK and self._fallbacks and not self._fallbacks[-1]):
            self._skipping += 1
            return
        if not self._open and tag != "configuration":
            raise self._wrong(f"the outermost element is <{tag}>, not <configuration>")
        self._open.append(tag)
        self._text.clear()
        if tag == _INCLUDE:
            self._fallbacks.append(not self._include(attributes))
        elif tag == "property":
            self._fields = dict(attributes)
            self._line = self._parser.CurrentLineNumber

    def _end(self, tag: str) -> None:
        if self._skipping:
            self._skipping -= 1
            return
        self._open.pop()
        if tag == _INCLUDE and self._fallbacks.pop():
            raise self._wrong("the included file cannot be read, and there is no fallback")
        if tag == _FALLBACK and self._fallbacks:
            self._fallbacks[-1] = False
        if self._fields is None:
            return
        if tag == "property":
            self._keep(self._fields)
            self._fields = None
        elif self._open[-1] == "property":
            self._fields[tag] = "".join(self._text)

    def _keep(self, fields: dict[str, str]) -> None:
        name = fields.get("name", "").strip()
        if not name:
            raise self._wrong("a property without a name", self._line)
        if "value" in fields:
            self._found.append(
                Property(
                    name=name,
                    value=fields["value"],
                    final=fields.get("final", "").strip().lower() == "true",
                    file=self._path,
                    line=self._line,
                )
            )

    def _include(self, attributes: dict[str, str]) -> bool:
        """Read another file; false if it does not exist."""
        href = urlsplit(attributes.get("href", ""))
        if href.scheme not in ("", "file") or not href.path:
            raise self._wrong(f"cannot include {attributes.get('href', 'nothing')!r}: no file")
        target = self._path.parent / unquote(href.path)
        if target in self._chain:
            raise self._wrong(f"including {target} would never end")
        self._budget.includes -= 1
        if self._budget.includes < 0:
            raise self._wrong(
                f"including {target} is one too many: {self._chain[0]} includes more than "
                f"{_MAX_INCLUDES} files"
            )
        if not target.is_file():
            return False
        self._found += _read(target, self._chain, self._budget)
        return True

    def _refuse_entity(self, name: str, *details: object) -> None:
        raise self._wrong(f"it declares the entity {name!r}, which we do not allow")

    def _wrong(self, what: str, line: int | None = None) -> SettingsError:
        return SettingsError(f"{self._path}, line {line or self._parser.CurrentLineNumber}: {what}")
