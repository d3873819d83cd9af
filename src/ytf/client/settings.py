"""What the user has settled once: ``ytf.toml``, ``YTF_*`` variables and flags.

Flags win over the environment, the environment over the project's file, the
project's over the user's. Values stay as the user wrote them; whoever uses one
parses it with the same grammar as the flag of that name.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ytf.backends import NAMES
from ytf.backends.api import KEEP_S
from ytf.errors import SettingsError
from ytf.home import home
from ytf.specs.wording import did_you_mean

FILE = "ytf.toml"

KEYS: dict[str, str] = {
    "backend": "where jobs run: local or yarn",
    "queue": "the queue to submit to",
    "name": "the name of jobs that have none",
    "env": "what `python` in the command is: node, current or a path",
    "python": "a Python on the nodes for ytf's own processes",
    "registry": "where starters report: rest",
    "framework": "which variables programs get: tensorflow or none",
    "priority": "before jobs of the queue with a lower one",
    "tags": "words to find jobs by, comma-separated",
    "acl_view": "who else may look at jobs: users, then groups",
    "acl_modify": "who else may kill them",
    "node_label": "the label of the nodes to use",
    "task_vcores": "vcores of each task",
    "task_memory": "memory of each task",
    "history_days": "for how many days the records of ended jobs stay: 7, unless set",
}
"""Every setting and what it means. The variable of ``queue`` is ``YTF_QUEUE``."""


_NAMED = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings in force. ``sources`` says who set each one."""

    values: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        """The value of a setting, None if nobody set it."""
        return self.values.get(key)


@dataclass(frozen=True, kw_only=True)
class BackendChoice:
    """Which backend, and why in a few words."""

    name: str
    reason: str


def working_directory() -> Path:
    """Where we are; ``SettingsError`` if that has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as exc:
        raise SettingsError(
            "the working directory does not exist any more", hint="cd to one that does"
        ) from exc


def load(
    flags: Mapping[str, str | None] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Merge flags, environment and files; raises ``SettingsError`` for what it does not know."""
    environ = os.environ if environ is None else environ
    values: dict[str, str] = {}
    sources: dict[str, str] = {}

    def merge(layer: Mapping[str, str], source: str) -> None:
        for key, value in layer.items():
            values[key] = value
            sources[key] = source

    cwd = cwd or working_directory()
    for path in _files(environ, cwd):
        merge(_located(_read(path), path.parent), str(path))
    for key in KEYS:
        variable = f"YTF_{key.upper()}"
        # An empty variable is how a shell user says "not set".
        if environ.get(variable):
            merge(_located({key: environ[variable]}, cwd), f"the variable {variable}")
    for key, given in (flags or {}).items():
        if given is not None:
            merge({key: given}, f"--{key}")

    backend = values.get("backend")
    if backend is not None and backend not in NAMES:
        raise SettingsError(
            f"there is no backend {backend!r} (from {sources['backend']})",
            hint=f"use one of: {', '.join(NAMES)}",
        )
    return Settings(values=values, sources=sources)


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
    for variable in _NAMED:
        if environ.get(variable):
            # Meant for a cluster, a job must not quietly run here.
            raise SettingsError(
                f"{variable} names {environ[variable]}, which has no yarn-site.xml",
                hint="correct or unset it, or say where to run: --backend local",
            )
    return BackendChoice(name="local", reason="no Hadoop configuration found")


def history_s(settings: Settings) -> float:
    """How long records of ended jobs stay; ``SettingsError`` for what is no number of days."""
    given = settings.get("history_days")
    if given is None:
        return KEEP_S
    try:
        days = float(given)
    except ValueError:
        days = -1.0
    # Not a number (nan) is not at least 0, either.
    if not days >= 0:
        raise SettingsError(
            f"history_days (from {settings.sources['history_days']}) is {given!r}",
            hint="give a number of days, such as 7 or 0.5",
        )
    return days * 86400


def hadoop_configuration(environ: Mapping[str, str]) -> Path | None:
    """The directory with ``yarn-site.xml`` that the environment names, if there is one."""
    candidates = [environ.get(variable) for variable in _NAMED]
    if environ.get("HADOOP_HOME"):
        candidates.append(os.path.join(environ["HADOOP_HOME"], "etc", "hadoop"))
    for candidate in candidates:
        if candidate and (Path(candidate) / "yarn-site.xml").is_file():
            return Path(candidate)
    return None


def _files(environ: Mapping[str, str], cwd: Path) -> list[Path]:
    """The settings files there are, the weakest first."""
    user = home(environ) / FILE
    found = [user] if user.is_file() else []
    for folder in (cwd, *cwd.parents):
        project = folder / FILE
        if project.is_file():
            if project != user:
                found.append(project)
            break
    return found


def _read(path: Path) -> dict[str, str]:
    # tomllib came with Python 3.11; tomli is the same module for 3.10.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, object] = toml.loads(path.read_text(encoding="utf-8"))
    except (toml.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path} is not valid TOML: {exc}") from exc
    except OSError as exc:
        raise SettingsError(f"cannot read {path}: {exc.strerror}") from exc
    return {key: _value(path, key, value) for key, value in table.items()}


def _located(values: dict[str, str], folder: Path) -> dict[str, str]:
    """The values with a path among them relative to where it is written, not to where we are."""
    asked = values.get("env")
    if asked is None or asked in ("node", "current"):
        return values
    return {**values, "env": str(folder / os.path.expanduser(asked))}


def _value(path: Path, key: str, value: object) -> str:
    if key not in KEYS:
        raise SettingsError(
            f"{path}: there is no setting {key!r}",
            hint=did_you_mean(key, KEYS, otherwise=f"known are: {', '.join(KEYS)}"),
        )
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise SettingsError(f"{path}: {key} must be a string or a number, not {value!r}")
    return str(value)
