"""One Hadoop configuration file: XML to properties, with XInclude, and nothing hostile.

Read with expat itself, so that every complaint has a file and a line, and so
that entities (and with them XML bombs) never come to life.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

import msgspec

from ytf.errors import SettingsError

_INCLUDE = "http://www.w3.org/2001/XInclude include"
_FALLBACK = "http://www.w3.org/2001/XInclude fallback"
_MOST_BYTES = 16 * 1024 * 1024
_MOST_INCLUDES = 64


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it stands in a file, spaces and all.

    ``final`` ones cannot be changed by later files.
    """

    name: str
    value: str
    final: bool
    file: Path
    line: int


def read_properties(path: Path) -> list[Property]:
    """All properties of a file and of what it includes, in order.

    A property without a value is left out, as in Hadoop. Raises
    ``SettingsError``, naming file and line, for what cannot be read.
    """
    return _read(path, ())


def _read(path: Path, parents: tuple[Path, ...]) -> list[Property]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as exc:
        raise SettingsError(f"cannot read {path}: {exc.strerror}") from exc
    if len(data) > _MOST_BYTES:
        raise SettingsError(f"{path} is too long for a Hadoop configuration file")
    return _Reader(path, (*parents, path)).read(data)


class _Reader:
    """Walks through one document. Elements it does not know are passed over, as in Hadoop."""

    def __init__(self, path: Path, chain: tuple[Path, ...]) -> None:
        self._path, self._chain = path, chain
        self._found: list[Property] = []
        self._open: list[str] = []
        self._fields: dict[str, str] | None = None
        self._line = 0
        self._text: list[str] = []
        self._includes = 0
        # Inside an include: whether its fallback is wanted. One per open include.
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
            raise self._wrong("what it includes cannot be read, and there is no fallback")
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
        """Take in another file; false if there is none."""
        href = urlsplit(attributes.get("href", ""))
        if href.scheme not in ("", "file") or not href.path:
            raise self._wrong(f"cannot include {attributes.get('href', 'nothing')!r}: no file")
        target = self._path.parent / unquote(href.path)
        self._includes += 1
        if target in self._chain or self._includes > _MOST_INCLUDES:
            raise self._wrong(f"including {target} would never end")
        if not target.is_file():
            return False
        self._found += _read(target, self._chain)
        return True

    def _refuse_entity(self, name: str, *details: object) -> None:
        raise self._wrong(f"it declares the entity {name!r}, which we do not allow")

    def _wrong(self, what: str, line: int | None = None) -> SettingsError:
        return SettingsError(f"{self._path}, line {line or self._parser.CurrentLineNumber}: {what}")
