"""Users' SCRAM credentials in a file of TOML: a table for each user, with a credential for each mechanism.

    [alice]
    SCRAM-SHA-256 = "salt=…,stored_key=…,server_key=…,iterations=4096"
    SCRAM-SHA-512 = "salt=…,stored_key=…,server_key=…,iterations=4096"

The credentials are spelled as in Kafka, and there are no passwords. Still, whoever has a credential can try passwords
against it at leisure, and can act as a broker. So the file is for its owner alone. It is read when the broker starts.
"""

from __future__ import annotations

import tomllib
from pathlib import PurePath
from typing import Any, Final

from ottla_broker.storage import files
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.scram import MECHANISMS, Mechanism, ScramCredential


class CredentialsFile:
    """A component: `start` reads the file, unless the path is empty. Until then there are no users."""

    def __init__(self, path: PurePath) -> None:
        self._path: Final = path
        self._users: dict[tuple[str, Mechanism], ScramCredential] = {}

    async def start(self) -> None:
        if self._path != PurePath():
            self._users = _read(self._path)

    async def stop(self) -> None:
        """Do nothing: there is nothing open."""

    def find(self, user: str, mechanism: Mechanism) -> ScramCredential | None:
        return self._users.get((user, mechanism))


def _read(path: PurePath) -> dict[tuple[str, Mechanism], ScramCredential]:
    try:
        if not files.is_private(path):
            raise _invalid(path, "other users can read it", f"run `chmod 600 {path}`")
        tables = tomllib.loads(files.read_text(path))
    except (OSError, ValueError) as error:
        raise _invalid(path, type(error).__name__, "write a file of TOML that the broker can read") from None
    return {
        (user, mechanism): _credential(path, user, mechanism, text)
        for user, table in tables.items()
        for mechanism, text in _of_user(path, user, table).items()
    }


def _of_user(path: PurePath, user: str, table: Any) -> dict[Mechanism, Any]:
    found = {mechanism: table[mechanism] for mechanism in MECHANISMS if isinstance(table, dict) and mechanism in table}
    if not found or len(found) < len(table):
        hint = f"write a table for each user, with {' or '.join(MECHANISMS)}"
        raise _invalid(path, f"the user {user[:100]!r} has something else than credentials", hint)
    return found


def _credential(path: PurePath, user: str, mechanism: Mechanism, text: Any) -> ScramCredential:
    try:
        return ScramCredential.of_text(mechanism, str(text))
    except OttlaError as error:
        raise _invalid(path, f"the user {user[:100]!r}: {error.message}", error.hint) from None


def _invalid(path: PurePath, reason: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, f"the credentials in {path} can't be used: {reason}", hint=hint)
