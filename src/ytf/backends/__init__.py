"""Finds the backend for a name or a job id. ``api`` has the ports, each subpackage an adapter."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.backends.api import JobBackend, JobHandle
    from ytf.backends.checks import BackendChecks

__all__ = ["BACKEND_NAMES", "backend_of_id", "get_backend", "get_checks", "open_job"]

# The node of the local backend imports this package and must stay small. So the
# functions here import what they need themselves.

BACKEND_NAMES = ("local", "yarn")

_NAME_BY_ID_PREFIX = {"local_": "local", "application_": "yarn"}


def get_backend(name: str) -> JobBackend:
    """Load and return the backend of that name.

    Raises ``SettingsError`` for an unknown name, with the nearest one as a
    hint, and if the machine lacks what the backend needs.
    """
    if name == "local":
        from ytf.backends.local.backend import LocalJobBackend

        return LocalJobBackend()

    if name == "yarn":
        from ytf.backends.yarn.backend import YarnJobBackend

        return YarnJobBackend()

    from ytf.errors import SettingsError, did_you_mean

    raise SettingsError(
        f"there is no backend {name!r}",
        hint=did_you_mean(name, BACKEND_NAMES, otherwise=f"use one of: {', '.join(BACKEND_NAMES)}"),
    )


def get_checks(
    name: str, *, queue: str, python: str | None, docker_engine: str | None
) -> BackendChecks:
    """Return what ``ytf doctor`` checks of a backend; the rest are settings of that name."""
    if name == "local":
        from ytf.backends.local.doctor import local_checks

        return local_checks(docker_engine)
    from ytf.backends.yarn.doctor.checks import yarn_checks

    return yarn_checks(queue, python)


def backend_of_id(text: str) -> str | None:
    """The backend whose job ids begin like this text; None if it is no job id."""
    found = (name for prefix, name in _NAME_BY_ID_PREFIX.items() if text.startswith(prefix))
    return next(found, None)


def open_job(text: str) -> JobHandle:
    """Find a job by its id; the prefix of the id names the backend.

    Raises ``NotFoundError`` if there is no such job or the text is no job id.
    """
    from ytf.errors import NotFoundError, SettingsError
    from ytf.specs.ids import JobId

    name = backend_of_id(text)
    if name is None:
        raise NotFoundError(
            f"{text!r} is not a job id",
            hint="ids look like local_… or application_…; `ytf list` shows yours",
        )
    try:
        backend = get_backend(name)
    except SettingsError as error:
        raise SettingsError(
            f"{text} is a job of the backend {name}: {error}", hint=error.hint
        ) from error
    return backend.open(JobId(text))
