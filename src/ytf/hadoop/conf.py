"""Reads the cluster's configuration, and the addresses in it, by the same rules as Hadoop.

``Configuration.find()`` finds its directory, ``Configuration.load()`` reads it.
Files are read in Hadoop's order. A later value replaces an earlier one, unless
that was final. ``${name}`` and ``${env.NAME}`` are expanded by the getters.
``rm_addresses()`` returns the addresses of the ResourceManager's services.
"""

from __future__ import annotations

import os
import pwd
import re
import tempfile
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.confxml import Property, read_properties

FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml", "resource-types.xml")

_MAX_SUBSTITUTIONS = 20
_VARIABLE = re.compile(r"\$\{([^\s${}]+)\}")
_ENVIRONMENT = re.compile(r"env\.([^:-]+)(:?-)?(.*)", re.DOTALL)
_DURATION = re.compile(r"(-?[0-9]+)\s*(ns|us|ms|s|m|h|d)?", re.IGNORECASE)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(-?[0-9]+)\s*([kmgtpe])?b?", re.IGNORECASE)

# From core-default.xml, hdfs-default.xml and yarn-default.xml: only what ytf reads.
_DEFAULTS = {
    # core
    "fs.defaultFS": "file:///",
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",
    "hadoop.security.authentication": "simple",
    "hadoop.security.token.service.use_ip": "true",
    "hadoop.rpc.protection": "authentication",
    "ipc.client.connect.timeout": "20000",
    "ipc.client.rpc-timeout.ms": "120000",
    "ipc.client.ping": "true",
    "ipc.ping.interval": "60000",
    "ipc.maximum.response.length": "134217728",
    # hdfs
    "dfs.replication": "3",
    # yarn: the ResourceManager
    "yarn.resourcemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.ha.enabled": "false",
    "yarn.resourcemanager.am.max-attempts": "2",
    "yarn.resourcemanager.connect.max-wait.ms": "900000",
    "yarn.resourcemanager.connect.retry-interval.ms": "30000",
    "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms": "600000",
    "yarn.resourcemanager.placement-constraints.handler": "disabled",
    "yarn.am.liveness-monitor.expiry-interval-ms": "900000",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.client.failover-sleep-base-ms": "1000",
    "yarn.acl.enable": "false",
    "yarn.http.policy": "HTTP_ONLY",
    # yarn: nodes and logs
    "yarn.node-labels.enabled": "false",
    "yarn.scheduler.include-port-in-node-name": "false",
    "yarn.scheduler.minimum-allocation-mb": "1024",
    "yarn.scheduler.maximum-allocation-mb": "8192",
    "yarn.log-aggregation-enable": "false",
    "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
    "yarn.nodemanager.remote-app-log-dir-suffix": "logs",
    "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
}

# Names that Hadoop has deprecated.
_RENAMED = {
    "fs.default.name": "fs.defaultFS",
    "dfs.federation.nameservices": "dfs.nameservices",
}


class Configuration:
    """Settings by name. Getters raise ``SettingsError`` with the setting and its file."""

    def __init__(
        self,
        properties: Iterable[Property] = (),
        *,
        environ: Mapping[str, str] = os.environ,
        directory: Path | None = None,
    ) -> None:
        self.directory = directory
        """The directory it was read from; None if it was made from values."""
        self._environ = environ
        self._properties: dict[str, Property] = {}
        for found in properties:
            name = _RENAMED.get(found.name, found.name)
            known = self._properties.get(name)
            if known is None or not known.final:
                self._properties[name] = found

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Path | None:
        """The directory of this machine's Hadoop configuration, if there is one.

        It is ``HADOOP_CONF_DIR``, else ``YARN_CONF_DIR``, else ``etc/hadoop`` below
        ``HADOOP_HOME``. Raises ``SettingsError`` if a variable names no directory.
        """
        for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
            named = environ.get(variable)
            if named:
                if not Path(named).is_dir():
                    raise SettingsError(
                        f"{variable} names {named}, which is not a directory",
                        hint="set it to the directory that contains yarn-site.xml",
                    )
                return Path(named)
        below_home = Path(environ.get("HADOOP_HOME", ""), "etc/hadoop")
        return below_home if environ.get("HADOOP_HOME") and below_home.is_dir() else None

    @classmethod
    def load(
        cls, directory: Path | None = None, *, environ: Mapping[str, str] = os.environ
    ) -> Configuration:
        """Read those of :data:`FILES` that exist in a directory.

        The default of ``directory`` is :meth:`find`. Raises ``SettingsError`` if
        there is no configuration or a file is malformed.
        """
        place = directory or cls.find(environ)
        if place is None:
            raise SettingsError(
                "no Hadoop configuration was found",
                hint="set HADOOP_CONF_DIR to the directory that contains yarn-site.xml",
            )
        paths = [place / name for name in FILES if (place / name).is_file()]
        if not paths:
            raise SettingsError(f"{place} contains none of {', '.join(FILES)}")
        found = [prop for path in paths for prop in read_properties(path)]
        return cls(found, environ=environ, directory=place)

    @classmethod
    def of(
        cls, values: Mapping[str, str], environ: Mapping[str, str] | None = None
    ) -> Configuration:
        """A configuration of the given values."""
        nowhere = Path("the given values")
        return cls(
            (
                Property(name=name, value=value, final=False, file=nowhere, line=0)
                for name, value in values.items()
            ),
            environ=os.environ if environ is None else environ,
        )

    def names(self) -> list[str]:
        """The names of all settings, without the defaults."""
        return list(self._properties)

    def get(self, name: str, default: str | None = None) -> str | None:
        """A setting with its variables expanded; else Hadoop's default, else ``default``.

        Spaces around it are kept, because they have a meaning in access lists.
        """
        raw = self._raw(name)
        return default if raw is None else self._expanded(name, raw)

    def get_trimmed(self, name: str, default: str | None = None) -> str | None:
        """The same without spaces around it, as Hadoop reads almost all settings."""
        value = self.get(name, default)
        return None if value is None else value.strip()

    def get_text(self, name: str, default: str | None = None) -> str:
        """A setting that must be set; raises ``SettingsError`` if it is not."""
        value = self.get_trimmed(name, default)
        if not value:
            raise SettingsError(f"the Hadoop configuration does not set {name}", hint=self._hint())
        return value

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
        """A list of values separated by commas."""
        return [part.strip() for part in (self.get(name) or "").split(",") if part.strip()]

    @property
    def secure(self) -> bool:
        """Whether the cluster uses Kerberos."""
        return self.get_text("hadoop.security.authentication").lower() == "kerberos"

    def _raw(self, name: str) -> str | None:
        name = _RENAMED.get(name, name)
        found = self._properties.get(name)
        return found.value if found is not None else _DEFAULTS.get(name)

    def _expanded(self, name: str, value: str) -> str:
        """Expand variables, innermost first, as ``Configuration.substituteVars`` does.

        Undefined variables and variables that refer to themselves are left as they are.
        """
        seen: set[str] = set()
        for _ in range(_MAX_SUBSTITUTIONS):
            found = _VARIABLE.search(value)
            if found is None:
                return value
            meant = self._variable(found[1])
            if meant is None or value in seen:
                return value
            seen.add(value)
            value = value[: found.start()] + meant + value[found.end() :]
        raise SettingsError(
            f"{name} has more than {_MAX_SUBSTITUTIONS} variables within variables: {value[:200]}",
            hint=self._place(name),
        )

    def _variable(self, name: str) -> str | None:
        from_environment = _ENVIRONMENT.fullmatch(name)
        if from_environment is not None:
            variable, otherwise, default = from_environment.groups()
            value = self._environ.get(variable)
            # As in a shell: ":-" applies to an empty variable, too.
            if value is None or (otherwise == ":-" and not value):
                return default if otherwise else None
            return value
        return _java_property(name, self._environ) or self._raw(name)

    def _wrong(self, name: str, value: str | None, wanted: str) -> SettingsError:
        if not value:
            return SettingsError(f"the Hadoop configuration does not set {name}", hint=self._hint())
        return SettingsError(f"{name} is {value!r}, not {wanted}", hint=self._place(name))

    def _place(self, name: str) -> str | None:
        found = self._properties.get(_RENAMED.get(name, name))
        return f"it is set in {found.file}, line {found.line}" if found is not None else None

    def _hint(self) -> str | None:
        return f"it was read from {self.directory}" if self.directory is not None else None


def _java_property(name: str, environ: Mapping[str, str]) -> str | None:
    """The value of one of the few JVM system properties that configurations use."""
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


class Address(msgspec.Struct, frozen=True):
    """A host and a port, written ``host:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Parse ``host:port``, or ``host`` if there is a default port; raises ``ValueError``."""
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\s]+))(?::([0-9]{1,5}))?", text.strip())
    port = int(found[3]) if found and found[3] else default_port
    if found is None or port is None or not 0 < port < 2**16:
        raise ValueError(f"{text!r} is not host:port")
    return Address(found[1] or found[2], port)


class RmService(Enum):
    """A service of the ResourceManager: the name of its setting and its default port."""

    CLIENT = ("address", 8032)
    SCHEDULER = ("scheduler.address", 8030)
    WEB = ("webapp.address", 8088)
    WEB_TLS = ("webapp.https.address", 8090)


def rm_addresses(conf: Configuration, service: RmService) -> list[Address]:
    """The addresses of a service of the ResourceManager: one for each of a pair.

    The same rules as ``HAUtil``: ``<setting>.<id>``, else ``hostname.<id>`` and
    the default port. Raises ``SettingsError`` for a value that is no address.
    """
    suffixes = [f".{rm}" for rm in _rm_ids(conf)] or [""]
    return [_rm_address(conf, service, suffix) for suffix in suffixes]


def _rm_ids(conf: Configuration) -> list[str]:
    """The ids of the ResourceManagers of a highly available pair; none for a single one."""
    if not conf.get_bool("yarn.resourcemanager.ha.enabled"):
        return []
    ids = conf.get_list("yarn.resourcemanager.ha.rm-ids")
    if not ids:
        raise SettingsError(
            "yarn.resourcemanager.ha.enabled is true, but yarn.resourcemanager.ha.rm-ids names none"
        )
    return ids


def _rm_address(conf: Configuration, service: RmService, suffix: str) -> Address:
    setting, port = service.value
    name = f"yarn.resourcemanager.{setting}{suffix}"
    if conf.get_trimmed(name):
        return _address(conf, name, port)
    return _address(conf, f"yarn.resourcemanager.hostname{suffix}", port)


def _address(conf: Configuration, name: str, port: int) -> Address:
    try:
        return parse_address(conf.get_text(name), port)
    except ValueError as exc:
        raise SettingsError(f"{name}: {exc}") from exc
