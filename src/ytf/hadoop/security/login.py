"""``Login``: the user or the token with which a connection is made."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.security.credentials import Token

USER_VARIABLE = "HADOOP_USER_NAME"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a connection's caller.

    With a ``token`` the server takes the user from the token. Without one, the
    server believes the name ``user`` (SIMPLE). A ``secure`` connection never
    offers a bare name: it negotiates with SASL.
    """

    user: str
    token: Token | None = None
    secure: bool = False

    @property
    def negotiates(self) -> bool:
        """Whether the connection begins with SASL."""
        return self.token is not None or self.secure


def current_user(environ: Mapping[str, str] = os.environ, *, secure: bool = False) -> str:
    """The user on the cluster: ``HADOOP_USER_NAME``, else the system's user.

    On a secure cluster the variable is ignored, as in ``UserGroupInformation``.
    Raises ``SettingsError`` if there is neither.
    """
    named = environ.get(USER_VARIABLE, "").strip()
    if named and not secure:
        return named
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError as exc:
        raise SettingsError(
            f"the system knows no user name for uid {uid}",
            hint=f"set {USER_VARIABLE} to the user you are on the cluster",
        ) from exc
