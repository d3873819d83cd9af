"""What a starter is given, read from its environment (docs/protocols.md §3)."""

from __future__ import annotations

import json

from ytf.starter.http import split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping, Optional, Tuple

HOLD = "hold"
RELEASE = "release"
NONE = "none"
TENSORFLOW = "tensorflow"

VARIABLE = "YTF_STARTER"
ROOM = ".ytf"
"""The directory for all of ours in a YARN container's working directory, which is the user's."""


class ConfigError(Exception):
    """The starter cannot begin with what it was given."""


class Config:
    """Who this starter is and how it behaves. Read once, never changed.

    ``log_dir`` None: the program uses the starter's own stdin, stdout and
    stderr, in its session, as a client at a terminal wants. ``log_prefix`` None:
    each attempt's logs are in a directory of their own. ``inherited`` are the
    variables that the program starts from, None: those of this very process.
    ``environment`` is what the program is to find first on its path, if anything.
    """

    __slots__ = (
        "attempt", "container", "environment", "generation", "grace_s", "group", "heartbeat_s",
        "host", "index", "inherited", "job", "log_dir", "log_limit_mb", "log_prefix", "master",
        "master_file", "orphan_s", "parent", "port", "program", "rendezvous", "secret_file",
        "variables",
    )  # fmt: skip

    def __init__(
        self, environ: Mapping[str, str], inherited: Optional[Dict[bytes, bytes]] = None
    ) -> None:
        given = _Given(environ)
        self.inherited = inherited
        self.program = given.variable("DTF_TASK_PROGRAM")
        self.group = given.variable("DTF_TASK_JOB_NAME")
        self.index = given.task_index()
        self.job = given.text("job")
        self.container = given.text("container")
        self.attempt = given.count("attempt")
        self.generation = given.count("generation")
        self.master = given.url("master")
        self.master_file = given.maybe_text("master_file")
        self.secret_file = given.text("secret_file")
        self.host = given.maybe_text("host")
        self.log_dir = given.maybe_text("log_dir")
        self.log_prefix = given.maybe_text("log_prefix")
        self.port = given.one_of("port", (HOLD, RELEASE, NONE))
        self.rendezvous = given.flag("rendezvous", True)
        self.variables = given.one_of("variables", (TENSORFLOW, NONE))
        self.grace_s = given.seconds("grace_s", 10.0)
        self.orphan_s = given.seconds("orphan_s", 1800.0)
        self.heartbeat_s = given.seconds("heartbeat_s", 30.0)
        self.log_limit_mb = given.seconds("log_limit_mb", 512.0)
        self.parent = given.maybe_count("parent")
        self.environment = given.environment()

    @property
    def task(self) -> str:
        """``group:index``."""
        return "%s:%d" % (self.group, self.index)

    def secret(self) -> bytes:
        """The job's secret: the bytes of ``secret_file`` as they are."""
        try:
            with open(self.secret_file, "rb") as file:
                secret = file.read()
        except OSError as exc:
            raise ConfigError("the job's secret cannot be read: %s" % exc) from exc
        if not secret:
            raise ConfigError("the job's secret, %s, is empty" % self.secret_file)
        return secret


class Environment:
    """An environment to be put together from layers: its manifest, and where each layer is."""

    __slots__ = ("layers", "manifest")

    def __init__(self, manifest: str, layers: Dict[str, str]) -> None:
        self.manifest = manifest
        self.layers = layers


class _Given:
    """Typed looks into ``YTF_STARTER``; each names the key when it does not fit."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        try:
            values = json.loads(self.variable(VARIABLE))
        except ValueError as exc:
            raise ConfigError("%s is not JSON: %s" % (VARIABLE, exc)) from exc
        if not isinstance(values, dict):
            raise ConfigError("%s is not a JSON object" % VARIABLE)
        self._values: Dict[str, Any] = values

    def variable(self, name: str) -> str:
        value = self._environ.get(name)
        if not value:
            raise ConfigError("%s is not set: a starter is launched by a backend of ytf" % name)
        return value

    def task_index(self) -> int:
        text = self.variable("DTF_TASK_INDEX")
        if not (text.isascii() and text.isdigit()):
            raise ConfigError("DTF_TASK_INDEX is %r, not a number" % text)
        return int(text)

    def _wrong(self, key: str, wanted: str) -> ConfigError:
        if key not in self._values:
            return ConfigError("%s lacks %r: %s" % (VARIABLE, key, wanted))
        return ConfigError("%s: %r must be %s, not %r" % (VARIABLE, key, wanted, self._values[key]))

    def maybe_text(self, key: str) -> Optional[str]:
        value = self._values.get(key)
        if value is not None and not (isinstance(value, str) and value):
            raise self._wrong(key, "a string or null")
        return value

    def text(self, key: str) -> str:
        value = self.maybe_text(key)
        if value is None:
            raise self._wrong(key, "a string")
        return value

    def url(self, key: str) -> str:
        value = self.text(key)
        try:
            split_url(value)
        except ValueError as exc:
            raise self._wrong(key, "of the form http://host:port") from exc
        return value

    def maybe_count(self, key: str) -> Optional[int]:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "a whole number, zero or more")
        return value

    def count(self, key: str) -> int:
        value = self.maybe_count(key)
        if value is None:
            raise self._wrong(key, "a whole number")
        return value

    def seconds(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
            raise self._wrong(key, "a number, zero or more")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def environment(self) -> Optional[Environment]:
        value = self._values.get("environment")
        if value is None:
            return None
        try:
            layers = {str(digest): str(place) for digest, place in value["layers"].items()}
            return Environment(str(value["manifest"]), layers)
        except (TypeError, KeyError, AttributeError) as exc:
            raise self._wrong("environment", "an object with a manifest and layers") from exc

    def one_of(self, key: str, allowed: Tuple[str, ...]) -> str:
        value = self._values.get(key)
        if value not in allowed:
            raise self._wrong(key, "one of " + ", ".join(allowed))
        return str(value)
