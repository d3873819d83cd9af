"""Reads settings from ``ytf.toml``, ``YTF_*`` variables and flags, and chooses the backend.

Flags win over the environment, the environment wins over the project's file, and the
project's file wins over the user's. Values are kept as text; code that uses a value
parses it like the flag of that name. ``ytf.specs.settings`` has the table of settings.

A file that another user can have written is ignored (``ytf.ownership``), and so is, in a
project's file, what only the user may decide. Each is told once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ytf.backends import BACKEND_NAMES
from ytf.backends.api import RECORD_RETENTION_S, Notify
from ytf.errors import SettingsError, SpecError, did_you_mean
from ytf.home import home
from ytf.ownership import UntrustedError, read_trusted
from ytf.specs.durations import parse_duration
from ytf.specs.job import is_url
from ytf.specs.settings import SETTINGS, variable_of
from ytf.terminal_text import printable_line

FILE = "ytf.toml"
MLFLOW_TIMEOUT_S = 10.0
MAX_MLFLOW_TIMEOUT_S = 600.0

_MAX_BYTES = 256 << 10

_CONF_DIR_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The values in force, and where each one was set: a file, a variable or a flag.

    ``files`` are those that were read, the user's first.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[Path] = ()

    def get(self, key: str) -> str | None:
        """The value of a setting, None if it is not set."""
        return self.values.get(key)


@dataclass(frozen=True, kw_only=True)
class BackendChoice:
    """The name of a backend, and why it was chosen."""

    name: str
    reason: str


def working_directory() -> Path:
    """The working directory; raises ``SettingsError`` if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as exc:
        raise SettingsError(
            "the working directory does not exist any more", hint="cd to one that does"
        ) from exc


@functools.cache
def print_once(text: str) -> None:
    """Print a line on stderr, unless this process has printed it before."""
    with contextlib.suppress(OSError):
        print(f"ytf: {printable_line(text)}", file=sys.stderr, flush=True)


def load(
    flags: Mapping[str, str | None] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    notify: Notify = print_once,
) -> Settings:
    """Merge flags, environment and files; raises ``SettingsError`` for an unknown setting.

    ``notify`` is told of each file or value that is ignored, and why.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, str] = {}
    sources: dict[str, str] = {}

    def merge(layer: Mapping[str, str], source: str) -> None:
        for key, value in layer.items():
            values[key] = value
            sources[key] = source

    cwd = cwd or working_directory()
    files = []
    for found, path in _from_files(environ, cwd, notify):
        merge(found, str(path))
        files.append(path)
    for key in SETTINGS:
        name = variable_of(key)
        # An empty variable means that the setting is not set.
        if environ.get(name):
            merge(_with_absolute_env({key: environ[name]}, cwd), f"the variable {name}")
    for key, given in (flags or {}).items():
        if given is not None:
            merge({key: given}, f"--{key}")

    backend = values.get("backend")
    if backend is not None and backend not in BACKEND_NAMES:
        raise SettingsError(
            f"there is no backend {backend!r} (from {sources['backend']})",
            hint=f"use one of: {', '.join(BACKEND_NAMES)}",
        )
    return Settings(values=values, sources=sources, files=files)


def choose_backend(
    settings: Settings, *, environ: Mapping[str, str] | None = None
) -> BackendChoice:
    """The backend that is set, else ``yarn`` where Hadoop is configured, else ``local``."""
    chosen = settings.get("backend")
    if chosen is not None:
        return BackendChoice(name=chosen, reason=f"from {settings.sources['backend']}")
    environ = os.environ if environ is None else environ
    found = hadoop_configuration(environ)
    if found is not None:
        return BackendChoice(name="yarn", reason=f"Hadoop configuration in {found}")
    for variable in _CONF_DIR_VARIABLES:
        if environ.get(variable):
            # The job is meant for a cluster: it must not run here without a word.
            raise SettingsError(
                f"{variable} names {environ[variable]}, which has no yarn-site.xml",
                hint="correct or unset it, or say where to run: --backend local",
            )
    return BackendChoice(name="local", reason="no Hadoop configuration found")


def history_s(settings: Settings) -> float:
    """How long records of ended jobs are kept, from ``history_days``."""
    given = settings.get("history_days")
    if given is None:
        return RECORD_RETENTION_S
    try:
        days = float(given)
    except ValueError:
        days = -1.0
    # Refuses nan, too.
    if not days >= 0:
        raise SettingsError(
            f"history_days (from {settings.sources['history_days']}) is {given!r}",
            hint="give a number of days, such as 7 or 0.5",
        )
    return days * 86400


def mlflow_timeout_s(settings: Settings) -> float:
    """How long jobs wait for MLflow, from ``mlflow_timeout``."""
    given = settings.get("mlflow_timeout")
    if given is None:
        return MLFLOW_TIMEOUT_S
    where = f"mlflow_timeout (from {settings.sources['mlflow_timeout']})"
    try:
        timeout_s = parse_duration(given)
    except SpecError as exc:
        raise SettingsError(f"{where}: {exc}", hint=exc.hint) from exc
    if timeout_s > MAX_MLFLOW_TIMEOUT_S:
        raise SettingsError(f"{where} is {given}", hint="give 10m or less")
    return timeout_s


def hadoop_configuration(environ: Mapping[str, str]) -> Path | None:
    """The directory with ``yarn-site.xml`` that the environment names, if there is one."""
    candidates = [environ.get(variable) for variable in _CONF_DIR_VARIABLES]
    if environ.get("HADOOP_HOME"):
        candidates.append(os.path.join(environ["HADOOP_HOME"], "etc", "hadoop"))
    for candidate in candidates:
        if candidate and (Path(candidate) / "yarn-site.xml").is_file():
            return Path(candidate)
    return None


def _from_files(
    environ: Mapping[str, str], cwd: Path, notify: Notify
) -> Iterator[tuple[dict[str, str], Path]]:
    """The values of the user's file, then those of the nearest project's file."""
    user_file = _user_file(environ, notify)
    own = None if user_file is None else _read(user_file, notify)
    if user_file is not None and own is not None:
        yield _with_absolute_env(own, user_file.parent), user_file
    for folder in (cwd, *cwd.parents):
        path = folder / FILE
        is_own = user_file is not None and folder == user_file.parent.resolve()
        found = own if is_own else _read(path, notify)
        if found is not None:
            if not is_own:
                yield _of_project(path, found, user_file, notify), path
            return


def _user_file(environ: Mapping[str, str], notify: Notify) -> Path | None:
    """The user's own settings file; None if ``YTF_HOME`` cannot be used."""
    try:
        return home(environ) / FILE
    except SettingsError as exc:
        notify(f"the user's settings are ignored: {_with_hint(exc)}")
    return None


def _read(path: Path, notify: Notify) -> dict[str, str] | None:
    """The values of a file; None if it does not exist or is ignored."""
    try:
        data = read_trusted(path, _MAX_BYTES)
    except FileNotFoundError:
        return None
    except UntrustedError as exc:
        notify(f"ignored: {_with_hint(exc)}")
        return None
    except OSError as exc:
        notify(f"ignored: {path} cannot be read: {exc.strerror}")
        return None
    # tomllib came with Python 3.11; tomli is the same module for 3.10.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, object] = toml.loads(data.decode())
    except ValueError as exc:  # of TOML, of UTF-8, or of a number of thousands of digits
        raise SettingsError(f"{path} is not valid TOML: {exc}") from exc
    except RecursionError as exc:
        raise SettingsError(f"{path} is nested too deeply for settings") from exc
    return {key: _value(path, key, value) for key, value in table.items()}


def _of_project(
    path: Path, values: dict[str, str], user_file: Path | None, notify: Notify
) -> dict[str, str]:
    """The values of a project's file without those that only the user may set."""
    kept = {}
    for key, value in values.items():
        reason = SETTINGS[key].only_user
        if reason:
            notify(
                f"ignored: {key} in {path}: it {reason}, so a project cannot set it; set it in "
                f"{user_file or '~/.ytf/' + FILE}, or with {variable_of(key)}"
            )
        else:
            kept[key] = value
    return kept


def _with_hint(error: SettingsError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _with_absolute_env(values: dict[str, str], folder: Path) -> dict[str, str]:
    """The values with ``env`` made absolute: its path is relative to the file it stands in."""
    asked = values.get("env")
    if asked is None or asked in ("node", "current") or is_url(asked):
        return values
    return {**values, "env": str(folder / os.path.expanduser(asked))}


def _value(path: Path, key: str, value: object) -> str:
    if key not in SETTINGS:
        raise SettingsError(
            f"{path}: there is no setting {key!r}",
            hint=did_you_mean(key, SETTINGS, otherwise=f"known are: {', '.join(SETTINGS)}"),
        )
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise SettingsError(f"{path}: {key} must be a string or a number, not {value!r}")
    return str(value)
