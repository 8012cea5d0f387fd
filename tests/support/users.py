"""Users with SCRAM credentials, in memory and as a broker's file of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla_core.security.scram import LEAST_ITERATIONS, MECHANISMS, SALT_BYTES, Mechanism, ScramCredential

PASSWORDS: Final = {"alice": "alice-wonder-17", "bob": "bob-builder-23"}


class Users:
    """Credentials of these users, for each of the mechanisms."""

    def __init__(
        self,
        passwords: Mapping[str, str] = PASSWORDS,
        mechanisms: Iterable[Mechanism] = MECHANISMS,
        *,
        iterations: int = LEAST_ITERATIONS,
    ) -> None:
        self.credentials: Final[dict[tuple[str, Mechanism], ScramCredential]] = {
            (user, mechanism): ScramCredential.of_password(
                mechanism, password, salt=os.urandom(SALT_BYTES), iterations=iterations
            )
            for mechanism in mechanisms
            for user, password in passwords.items()
        }

    def find(self, user: str, mechanism: Mechanism) -> ScramCredential | None:
        return self.credentials.get((user, mechanism))

    def write(self, path: Path) -> Path:
        """Write the file that a broker reads."""
        tables: dict[str, list[str]] = {}
        for (user, mechanism), credential in self.credentials.items():
            tables.setdefault(user, []).append(f'{mechanism} = "{credential.text()}"')
        path.touch(0o600)
        path.write_text("\n".join(f'["{user}"]\n' + "\n".join(lines) for user, lines in tables.items()))
        return path
