"""The cluster's configuration, read as Hadoop reads it.

``Configuration.find()`` answers whether there is one, ``Configuration.load()``
reads it. Files come in Hadoop's order and the last word counts, unless an
earlier one was final; ``${name}`` and ``${env.NAME}`` are put in when asked.
"""

from __future__ import annotations

import os
import pwd
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ytf.errors import SettingsError
from ytf.hadoop.confdefaults import DEFAULTS, RENAMED
from ytf.hadoop.confxml import Property, read_properties

FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml", "resource-types.xml")

_MOST_SUBSTITUTIONS = 20
_VARIABLE = re.compile(r"\$\{([^\s${}]+)\}")
_ENVIRONMENT = re.compile(r"env\.([^:-]+)(:?-)?(.*)", re.DOTALL)
_DURATION = re.compile(r"(-?[0-9]+)\s*(ns|us|ms|s|m|h|d)?", re.IGNORECASE)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(-?[0-9]+)\s*([kmgtpe])?b?", re.IGNORECASE)


class Configuration:
    """Settings by name. Getters raise ``SettingsError`` naming the setting and its file."""

    def __init__(
        self,
        properties: Iterable[Property] = (),
        *,
        environ: Mapping[str, str] = os.environ,
        directory: Path | None = None,
    ) -> None:
        self.directory = directory
        """Where it was read from, if it was."""
        self._environ = environ
        self._properties: dict[str, Property] = {}
        for found in properties:
            name = RENAMED.get(found.name, found.name)
            known = self._properties.get(name)
            if known is None or not known.final:
                self._properties[name] = found

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Path | None:
        """The directory of this machine's Hadoop configuration, if it has one.

        ``HADOOP_CONF_DIR``, else ``YARN_CONF_DIR``, else ``etc/hadoop`` below
        ``HADOOP_HOME``. Raises ``SettingsError`` if a variable names no directory.
        """
        for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
            named = environ.get(variable)
            if named:
                if not Path(named).is_dir():
                    raise SettingsError(
                        f"{variable} names {named}, which is not a directory",
                        hint="let it name the directory that holds yarn-site.xml",
                    )
                return Path(named)
        below_home = Path(environ.get("HADOOP_HOME", ""), "etc/hadoop")
        return below_home if environ.get("HADOOP_HOME") and below_home.is_dir() else None

    @classmethod
    def load(
        cls, directory: Path | None = None, *, environ: Mapping[str, str] = os.environ
    ) -> Configuration:
        """Read a directory's files: those of :data:`FILES` that are there.

        Without ``directory`` it is :meth:`find`'s. Raises ``SettingsError`` if
        there is none, or a file is broken.
        """
        place = directory or cls.find(environ)
        if place is None:
            raise SettingsError(
                "no Hadoop configuration was found",
                hint="set HADOOP_CONF_DIR to the directory that holds yarn-site.xml",
            )
        paths = [place / name for name in FILES if (place / name).is_file()]
        if not paths:
            raise SettingsError(f"{place} holds none of {', '.join(FILES)}")
        found = [prop for path in paths for prop in read_properties(path)]
        return cls(found, environ=environ, directory=place)

    @classmethod
    def of(
        cls, values: Mapping[str, str], environ: Mapping[str, str] | None = None
    ) -> Configuration:
        """One made of values at hand."""
        nowhere = Path("the given values")
        return cls(
            (
                Property(name=name, value=value, final=False, file=nowhere, line=0)
                for name, value in values.items()
            ),
            environ=os.environ if environ is None else environ,
        )

    def names(self) -> list[str]:
        """All settings that were made, without the defaults."""
        return list(self._properties)

    def get(self, name: str, default: str | None = None) -> str | None:
        """A setting with its variables put in; else ``default``, else Hadoop's own.

        Spaces around it are part of it: to an access list they mean something.
        """
        raw = self._raw(name)
        return default if raw is None else self._expanded(name, raw)

    def get_trimmed(self, name: str, default: str | None = None) -> str | None:
        """The same without spaces around it, as Hadoop has almost all of its settings."""
        value = self.get(name, default)
        return None if value is None else value.strip()

    def get_text(self, name: str, default: str | None = None) -> str:
        """A setting that must be there."""
        value = self.get_trimmed(name, default)
        if not value:
            raise SettingsError(f"the Hadoop configuration does not set {name}", hint=self._hint())
        return value

    def get_int(self, name: str, default: int | None = None) -> int:
        """A whole number, also as ``0x…``."""
        value = self.get_trimmed(name)
        if not value and default is not None:
            return default
        try:
            return int(value or "", 16 if (value or "").lower().startswith("0x") else 10)
        except ValueError:
            raise self._wrong(name, value, "a whole number") from None

    def get_float(self, name: str, default: float | None = None) -> float:
        """A number."""
        value = self.get_trimmed(name)
        if not value and default is not None:
            return default
        try:
            return float(value or "")
        except ValueError:
            raise self._wrong(name, value, "a number") from None

    def get_bool(self, name: str, default: bool | None = None) -> bool:
        """``true`` or ``false``."""
        value = self.get_trimmed(name)
        if not value and default is not None:
            return default
        if (value or "").lower() not in ("true", "false"):
            raise self._wrong(name, value, "true or false")
        return (value or "").lower() == "true"

    def get_seconds(self, name: str, unit: str = "ms", default: float | None = None) -> float:
        """A duration in seconds: ``10s``, ``3m``, or a bare number of ``unit``."""
        value = self.get_trimmed(name)
        if not value and default is not None:
            return default
        found = _DURATION.fullmatch(value or "")
        if found is None:
            raise self._wrong(name, value, "a duration like 500ms, 10s or 3m")
        return int(found[1]) * _SECONDS[(found[2] or unit).lower()]

    def get_bytes(self, name: str, default: int | None = None) -> int:
        """A number of bytes: ``64k``, ``128m``, or a bare number."""
        value = self.get_trimmed(name)
        if not value and default is not None:
            return default
        found = _SIZE.fullmatch(value or "")
        if found is None:
            raise self._wrong(name, value, "a size like 4096, 64k or 128m")
        power = " kmgtpe".index((found[2] or " ").lower())
        return int(found[1]) << 10 * power

    def get_list(self, name: str) -> list[str]:
        """Values with commas between them."""
        return [part.strip() for part in (self.get(name) or "").split(",") if part.strip()]

    @property
    def secure(self) -> bool:
        """Whether the cluster wants Kerberos."""
        return self.get_text("hadoop.security.authentication").lower() == "kerberos"

    def _raw(self, name: str) -> str | None:
        name = RENAMED.get(name, name)
        found = self._properties.get(name)
        return found.value if found is not None else DEFAULTS.get(name)

    def _expanded(self, name: str, value: str) -> str:
        """Put variables in, innermost first, as ``Configuration.substituteVars`` does.

        What nobody defines stays as it is written; so does what leads to itself.
        """
        seen: set[str] = set()
        for _ in range(_MOST_SUBSTITUTIONS):
            found = _VARIABLE.search(value)
            if found is None:
                return value
            meant = self._variable(found[1])
            if meant is None or value in seen:
                return value
            seen.add(value)
            value = value[: found.start()] + meant + value[found.end() :]
        raise SettingsError(
            f"{name} has more than {_MOST_SUBSTITUTIONS} variables within variables: {value[:200]}",
            hint=self._place(name),
        )

    def _variable(self, name: str) -> str | None:
        from_environment = _ENVIRONMENT.fullmatch(name)
        if from_environment is not None:
            variable, otherwise, default = from_environment.groups()
            value = self._environ.get(variable)
            # As in a shell: ":-" is for what is empty, too.
            if value is None or (otherwise == ":-" and not value):
                return default if otherwise else None
            return value
        return _java_property(name, self._environ) or self._raw(name)

    def _wrong(self, name: str, value: str | None, wanted: str) -> SettingsError:
        if not value:
            return SettingsError(f"the Hadoop configuration does not set {name}", hint=self._hint())
        return SettingsError(f"{name} is {value!r}, not {wanted}", hint=self._place(name))

    def _place(self, name: str) -> str | None:
        found = self._properties.get(RENAMED.get(name, name))
        return f"it is set in {found.file}, line {found.line}" if found is not None else None

    def _hint(self) -> str | None:
        return f"it was read from {self.directory}" if self.directory is not None else None


def _java_property(name: str, environ: Mapping[str, str]) -> str | None:
    """The few system properties of a JVM that configurations use."""
    if name == "user.name":
        return _system_user()
    if name == "user.home":
        return environ.get("HOME")
    return tempfile.gettempdir() if name == "java.io.tmpdir" else None


def _system_user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None
