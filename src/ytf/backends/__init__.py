"""Who gives jobs their containers. ``api`` holds the ports, one package each the adapters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ytf.backends.api import JobBackend

__all__ = ["NAMES", "backend"]

NAMES = ("local", "yarn")


def backend(name: str) -> JobBackend:
    """The backend of that name; its code is loaded only now.

    Raises ``SettingsError`` for a name nobody has, with the nearest one as a
    hint, and where the surroundings lack what a backend needs.
    """
    # The local backend's node imports this package and must stay small: all else is lazy.
    if name == "local":
        from ytf.backends.local.jobs import LocalJobs

        return LocalJobs()

    if name == "yarn":
        from ytf.backends.yarn.jobs import YarnJobs

        return YarnJobs()

    from ytf.errors import SettingsError
    from ytf.specs.wording import did_you_mean

    raise SettingsError(
        f"there is no backend {name!r}",
        hint=did_you_mean(name, NAMES, otherwise=f"use one of: {', '.join(NAMES)}"),
    )
