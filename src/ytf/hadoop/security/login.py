"""As whom we call: a user by name, or the bearer of a token."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

import msgspec

from ytf.errors import SettingsError
from ytf.hadoop.security.tokens import Token

USER_VARIABLE = "HADOOP_USER_NAME"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection says of its caller.

    With a ``token`` the server takes the user from that. Without one, ``user``
    is believed as it is (SIMPLE), unless the connection must be ``secure``:
    then the server is asked what it wants, and a bare name is never offered.
    """

    user: str
    token: Token | None = None
    secure: bool = False

    @property
    def negotiates(self) -> bool:
        """Whether the connection begins with SASL."""
        return self.token is not None or self.secure


def current_user(environ: Mapping[str, str] = os.environ, *, secure: bool = False) -> str:
    """The user to be on the cluster: ``HADOOP_USER_NAME``, else the system's.

    On a secure cluster the variable counts for nothing, as in
    ``UserGroupInformation``. Raises ``SettingsError`` where there is neither.
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
